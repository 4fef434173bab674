"""The `aiflame` command. A file per command lies beside this one: it parses, calls, prints."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

from aiflame.errors import AiflameError, harmless


def main() -> int:
    """Runs the command that the arguments name; the one place where errors are printed."""
    return guarded(_run, sys.argv[1:])


def guarded(run: Callable[[list[str]], int], arguments: list[str]) -> int:
    try:
        return run(arguments)
    except AiflameError as error:
        print(f"aiflame: {harmless(str(error))}", file=sys.stderr)
        return getattr(error, "status", 1)
    except BrokenPipeError:
        # The reader of our output has left (`| head`): nothing is wrong.
        sys.stdout = None
        return 0
    except KeyboardInterrupt:
        print("aiflame: interrupted", file=sys.stderr)
        return 130


def _run(arguments: list[str]) -> int:
    # Recording must work where only the standard library is, and start fast: it does not go through the table of commands.
    if arguments[:1] == ["record"]:
        gc.disable()  # until the program runs: nothing that starts it is garbage
        from aiflame.cli.record import record

        return record(arguments[1:])
    from aiflame.cli.commands import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
