"""The `aiflame` command. Each command has its own file beside this one, with its arguments and its output."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

from aiflame.errors import AiflameError, harmless


def main() -> int:
    """Runs the command that the arguments name. It is the one place where errors are printed."""
    return guarded(_run, sys.argv[1:])


def guarded(run: Callable[[list[str]], int], arguments: list[str]) -> int:
    try:
        return run(arguments)
    except AiflameError as error:
        print(f"aiflame: {harmless(str(error))}", file=sys.stderr)
        return getattr(error, "status", 1)
    except BrokenPipeError:
        # The reader of our output has left (`| head`): this is not an error.
        sys.stdout = None
        return 0
    except KeyboardInterrupt:
        print("aiflame: interrupted", file=sys.stderr)
        return 130


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["record"]:
        gc.disable()  # until the program runs: starting it makes no garbage
    from aiflame.cli.commands import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
