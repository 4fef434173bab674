"""Makes mangled names of functions readable."""
