"""Files of profilers that sample stacks: a module a format. `samples` collects their rows."""
