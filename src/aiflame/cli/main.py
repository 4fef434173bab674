"""The `aiflame` command. Each command has its own file beside this one, with its arguments and its output."""

from __future__ import annotations

import contextlib
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
        _complain(harmless(str(error)))
        return getattr(error, "status", 1)
    except BrokenPipeError:
        # The reader of our output has left (`| head`): this is not an error.
        sys.stdout = None
        return 0
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130


def _complain(text: str) -> None:
    """Prints a line on stderr, if it can be written to: the status that follows says the same to scripts."""
    if sys.stderr is None:  # it was closed when we were started; print would write to stdout
        return
    with contextlib.suppress(OSError):
        print(f"aiflame: {text}", file=sys.stderr)


def _run(arguments: list[str]) -> int:
    gc.disable()  # imports make no garbage
    from aiflame.cli.commands import run

    return run(arguments, _imported)


def _imported(command: str) -> None:
    """The command's module is imported, and this process will end with the command."""
    if command in ("record", "attach"):
        from aiflame.recorder.supervise import hold_signals_for_good

        hold_signals_for_good()
    if command != "record":  # the recorder enables collection when the program runs
        gc.freeze()  # no collection looks through imported modules, as they stay
        gc.enable()


if __name__ == "__main__":
    sys.exit(main())
