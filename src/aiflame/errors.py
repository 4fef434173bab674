"""The one exception a person ever sees."""


class AiflameError(Exception):
    """What a person did or has that stops us: what is wrong, and what to do, in one line."""
