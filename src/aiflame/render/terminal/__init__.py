"""Tables and pages for the terminal."""
