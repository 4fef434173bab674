"""Shared by the commands: arguments, the parser, lines and progress on the terminal, the view that common arguments describe."""
