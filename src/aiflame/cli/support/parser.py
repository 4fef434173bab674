"""The parser of all commands: argparse, with help that fits the terminal and one-line errors that suggest the intended name.

It imports only a little of the standard library, since `aiflame record` imports it before the program starts.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from aiflame.errors import AiflameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_WIDEST = 100
"""Columns of help: longer lines are hard to read."""
_NO_TERMINAL = 80
"""Columns of help that is written to a file."""
_MOST_NEAR = 3
_ALIKE = 0.6
"""difflib's own threshold for similar words."""


class UsageError(AiflameError):
    """The command line is wrong; nothing was done."""

    status = 2


class Parser(argparse.ArgumentParser):
    def __init__(self, prog: str, description: str = "", examples: Sequence[str] = (), usage: str | None = None) -> None:
        formatter = partial(_Formatter, width=min(_columns(), _WIDEST) - 2, max_help_position=28)
        super().__init__(prog, usage, description, formatter_class=formatter, allow_abbrev=False)
        self._positionals.title = "arguments"
        self._get_optional_actions()[0].help = "show this help"
        self.examples = examples

    def add_choice(
        self,
        *flags: str,
        choices: Iterable[str],
        metavar: str,
        help: str,
        default: str | None = None,
        also: Callable[[str], bool] = lambda text: False,
    ) -> None:
        """An option that takes one of these values, and such as `also` accepts. The error of another value names the nearest of them."""
        values = _Values(choices)
        values.also = also
        self.add_argument(*flags, type=_one_of(values), choices=values, metavar=metavar, help=help, default=default)

    def add_suggested(self, flag: str, choices: Iterable[str], metavar: str, help: str, nargs: str | None = None) -> None:
        """An argument or option that takes any value; a shell completes these."""
        self.add_argument(flag, choices=_Suggested(choices), metavar=metavar, help=help, nargs=nargs)

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        if any(action.nargs == argparse.REMAINDER for action in self._actions):
            options, unknown = self.parse_known_args(arguments)
        else:  # before CPython 3.12 the other order refuses `intra PROFILE --rows 3 KERNEL`
            options, unknown = self.parse_known_intermixed_args(arguments)
        for word in unknown:
            if word.startswith("-") and word.strip("-"):
                self._refuse_option(word.partition("=")[0])
        if unknown:
            raise UsageError(f"{self.command} has no place for {unknown[0]!r}: see {self.prog} -h")
        return options

    @property
    def command(self) -> str:
        return self.prog.removeprefix("aiflame ")

    def actions(self) -> list[argparse.Action]:
        """Arguments first, then options, in the order of the help."""
        return [*self._get_positional_actions(), *self._get_optional_actions()]

    def format_usage(self) -> str:
        self.usage = self.usage or " ".join([self.prog, "[options]", *(str(action.metavar) for action in self._get_positional_actions())])
        return super().format_usage()

    def format_help(self) -> str:
        self.format_usage()
        examples = "".join(f"  {line}\n" for line in self.examples)
        return super().format_help() + (f"\nexamples:\n{examples}" if examples else "")

    def error(self, message: str) -> NoReturn:
        reason = message.removeprefix("argument ").replace("the following arguments are required:", "needs")
        raise UsageError(f"{self.command} {reason}")

    def _refuse_option(self, option: str) -> None:
        names = near(option, [name for action in self._actions for name in action.option_strings])
        raise UsageError(f"{self.command} has no option {option}: {meant(names) if names else f'see {self.prog} -h'}")


def near(word: str, names: Collection[str]) -> list[str]:
    """The names that the user may have meant: those that begin with the word, otherwise those with the most similar spelling."""
    bare = word.lower().strip("-")
    if begin := [name for name in names if bare and name.lstrip("-").startswith(bare)]:
        return begin[:_MOST_NEAR]
    from difflib import SequenceMatcher

    alike = sorted(((SequenceMatcher(None, bare, name.lstrip("-")).ratio(), name) for name in names), reverse=True)
    return [name for ratio, name in alike if ratio >= max(_ALIKE, alike[0][0] - 0.05)][:_MOST_NEAR]


def meant(names: Sequence[str]) -> str:
    """`did you mean --wall?`"""
    *others, last = names
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"


class _Values(tuple[str, ...]):
    """Values of an option, of which some have no list."""

    also: Callable[[str], bool]

    def __contains__(self, text: object) -> bool:
        return super().__contains__(text) or (isinstance(text, str) and self.also(text))


def _one_of(values: Sequence[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text in values:
            return text
        raise argparse.ArgumentTypeError(not_one_of(text, values))

    return parse


def not_one_of(text: str, values: Sequence[str]) -> str:
    """`'gpu' is not known: did you mean gpu-time?`"""
    names = near(text, values)
    return f"{text!r} is {'not known: ' + meant(names) if names else 'none of ' + ', '.join(values)}"


def number(least: float, most: float | None = None, of: Callable[[str], float] = int) -> Callable[[str], float]:
    """Reads a number between two bounds."""
    wanted = f"{'whole number' if of is int else 'number'} {f'of {least:g} or more' if most is None else f'from {least:g} to {most:g}'}"

    def parse(text: str) -> float:
        try:
            value = of(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= (value if most is None else most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a {wanted}")
        return value

    return parse


def _columns() -> int:
    """The width of the terminal. argparse asks for it at each option, with a module that takes longer to import than this whole file."""
    if (given := os.environ.get("COLUMNS", "")).isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else -1).columns or _NO_TERMINAL
    except OSError:
        return _NO_TERMINAL


class _Suggested(tuple[str, ...]):
    """Choices to which others may be added: argparse asks whether a value is among them."""

    def __contains__(self, value: object) -> bool:
        return True


class _NoColors:
    """Replaces a theme of CPython 3.14: every colour is an empty text."""

    def __getattr__(self, name: str) -> str:
        return ""


class _Formatter(argparse.HelpFormatter):
    def _set_color(self, color: object, **others: object) -> None:
        """CPython 3.14 would import its themes here, with `dataclasses` and `inspect`, for each parser: 12 ms before the program starts."""
        self._theme = _NoColors()
        self._decolor = str

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """`-o, --output FILE`, as CPython 3.13 and later write it; earlier versions put FILE behind both."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{', '.join(action.option_strings)} {self._format_args(action, action.dest.upper())}"

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Keeps `--base-ranks` in one piece."""
        import textwrap

        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)
