"""Names of code that run-time compilers made, from the files that they wrote."""
