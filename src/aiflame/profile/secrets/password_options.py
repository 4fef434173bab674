"""Passwords in options of certain programs: `curl -u name:PASSWORD`, `sshpass -p PASSWORD`. Standard library alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class _Option:
    short: str = ""
    """`-p PASSWORD` and `-pPASSWORD`."""
    long: str = ""
    """`--pass PASSWORD` and `--pass=PASSWORD`."""
    before: str = ""
    """A pattern for the beginning of the value that is shown."""
    apart: bool = True
    """The value may be the next word. False for `mysql -p`, where the next word is a database."""


_PROGRAMS: dict[str, tuple[_Option, ...]] = {
    "sshpass": (_Option(short="-p"),),
    "curl": tuple(_Option(short, f"--{long}", r"[^\s:]+:") for short, long in (("-u", "user"), ("-U", "proxy-user"))),
    "(?:mysql|mariadb)[a-z-]*": (_Option(short="-p", apart=False),),
    "redis-cli": (_Option(short="-a", long="--pass"),),
    "mongo[a-z]*": (_Option(short="-p"),),
    "(?:7z[a-z]*|rar|unrar)": (_Option(short="-p", apart=False),),
    "(?:zip|unzip)": (_Option(short="-P"),),
    "smbclient": (_Option(short="-U", long="--user", before=r"[^\s%]+%"),),
    "openssl": tuple(_Option(long=long, before="pass:") for long in ("-passin", "-passout", "-pass")),
}
"""Options by a pattern of the program's name."""


def without_passwords(words: Iterable[str], mask: str) -> list[str]:
    """The words of a command, one of which is the program (`env A=B timeout 5 curl -u name:PASSWORD`), with passwords masked."""
    shown: list[str] = []
    options: Sequence[_Option] = ()
    previous = ""
    for word in words:
        shown.append(next((hidden for option in options if (hidden := _hidden(option, previous, word, mask)) is not None), word))
        options = _options_of(word) or options
        previous = word
    return shown


def without_passwords_in_text(text: str, mask: str) -> str:
    """A shell's command, as words between blanks, with passwords masked."""
    pieces = re.split(r"(\s+)", text)
    pieces[::2] = without_passwords(pieces[::2], mask)
    return "".join(pieces)


def _options_of(word: str) -> Sequence[_Option]:
    name = word.rsplit("/", 1)[-1]
    return next((options for pattern, options in _PROGRAMS.items() if re.fullmatch(pattern, name)), ())


def _hidden(option: _Option, previous: str, word: str, mask: str) -> str | None:
    """The word with the option's password hidden; None if it has none."""
    starts = []
    if option.apart and previous and previous in (option.short, option.long) and not word.startswith("-"):
        starts.append("")
    if option.short:
        starts.append(re.escape(option.short))
    if option.long:
        starts.append(re.escape(option.long) + "=")
    for start in starts:
        if match := re.match(rf"(?P<shown>{start}[\"']?{option.before})(?P<password>[^\"'\s].*)", word, re.DOTALL):
            return match["shown"] + mask
    return None
