"""Native addresses of the profiled program as functions, inlined calls, source lines and instructions."""
