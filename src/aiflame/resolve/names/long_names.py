"""Short names directly from C++'s mangled ones, for those that are too long for the runtime's demangler.

libiberty's demangler (libstdc++'s) gives up on symbols of more than about a thousand characters, which are common in deep-learning
frameworks: their kernels are templates over lambdas. Types are skipped, not parsed.
"""

from __future__ import annotations

import re

_BRACKETS = "NIJXF"
"""Letters that open a part which an E closes."""

_START = re.compile(r"_Z(?:Th?v?n?\d+_(?:n?\d+_)?)?")
"""The start of a mangled name, with the offsets of a thunk."""

_NUMBER = re.compile(r"\d{1,6}")
_SUBSTITUTION = re.compile(r"S(?:[0-9A-Z]*_|[a-z])")
_SKIPPED = re.compile(r"T[0-9]*_|A[0-9]*_|Ut[0-9]*_|fL?\d*p[rVK]*\d*_|C[1-5]|D[a-zA-SU-Z0-9]|[A-Z_]")
_LITERAL_VALUE = re.compile(r"n?[0-9a-f]*E")
_LAMBDA_END = re.compile(r"\d*_")
_STANDARD = {"St": "std", "Sa": "std::allocator", "Ss": "std::string", "Sb": "std::string", "Si": "std::istream", "So": "std::ostream"}
_OPERATORS = {
    "cl": "()", "ix": "[]", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "ss": "<=>", "ls": "<<", "rs":
    ">>", "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%", "pL": "+=", "mI": "-=", "mL": "*=", "dV": "/=", "aS": "=", "pt":
    "->", "pp": "++", "mm": "--", "nt": "!", "aa": "&&", "oo": "||", "an": "&", "or": "|", "eo": "^", "co": "~", "de": "*", "ad":
    "&", "cm": ",", "lS": "<<=", "rS": ">>=",
}  # fmt: skip


def outline(symbol: str) -> str | None:
    """The name without parameters, template arguments and return type; None if it cannot be parsed."""
    start = _START.match(symbol)
    if start is None:
        return None
    try:
        parts, _ = _name(symbol, start.end())
    except (IndexError, RecursionError, _NotUnderstood):
        return None
    parts = [part for part in parts if part not in ("_GLOBAL__N_1", "__cxx11", "__1")]
    return "::".join(parts).replace("}::operator()", "}") or None


class _NotUnderstood(Exception):
    pass


def _name(text: str, at: int) -> tuple[list[str], int]:
    """The parts of a name (without those of its types), and where it ends."""
    if text[at] == "Z":
        outer, at = _name(text, at + 1)
        _, at = _walk(text, at, "Z")
        inner, at = _name(text, at)
        return outer + inner, at
    if text[at] == "N":
        return _walk(text, at + 1, "N")
    parts, at = [], at
    if text.startswith("St", at):
        parts, at = ["std"], at + 2
    if text[at] == "L":
        at += 1
    if match := _NUMBER.match(text, at):
        end = match.end() + int(match[0])
        if end <= len(text) and not text[match.end()].isdigit():
            return [*parts, text[match.end() : end]], end
    raise _NotUnderstood


def _walk(text: str, at: int, opened: str) -> tuple[list[str], int]:
    """From inside a bracket to behind the E that closes it; and its own parts, if it is a nested name."""
    parts: list[str] = []
    stack = [opened]
    while stack:
        letter = text[at]
        outermost = len(stack) == 1 and opened == "N"
        if match := _NUMBER.match(text, at):
            at = match.end() + int(match[0])
            if at > len(text):
                raise _NotUnderstood
            if outermost:
                parts.append(text[match.end() : at])
        elif letter == "E":
            at += 1
            if stack.pop() == "U":
                if not (match := _LAMBDA_END.match(text, at)):
                    raise _NotUnderstood
                at = match.end()
                if len(stack) == 1 and opened == "N":
                    parts.append(f"{{lambda#{int(match[0][:-1]) + 2 if match[0] != '_' else 1}}}")
        elif letter == "L" and not (text[at + 1].isdigit() and (stack[-1] == "N" or text[at - 1] == "Z")):
            at = _literal(text, at + 1, stack)
        elif text.startswith("Ul", at):
            stack.append("U")
            at += 2
        elif letter in _BRACKETS or letter == "Z" or text.startswith(("DT", "Dt"), at) or (stack[-1] == "X" and _call(text, at)):
            stack.append(letter if letter in _BRACKETS else "Z")
            at += 1 if letter in _BRACKETS or letter == "Z" else 2
        elif match := _SUBSTITUTION.match(text, at):
            if outermost and match[0] in _STANDARD:
                parts.append(_STANDARD[match[0]])
            at = match.end()
        elif letter == "B" and outermost and (match := _NUMBER.match(text, at + 1)):
            at = match.end() + int(match[0])  # an ABI tag
        elif match := _SKIPPED.match(text, at):
            if outermost and match[0][0] in "CD" and len(match[0]) == 2 and parts:
                parts.append(("~" if letter == "D" else "") + parts[-1].rpartition("::")[2])
            at = match.end()
        elif outermost and text[at : at + 2] in _OPERATORS:
            parts.append(f"operator{_OPERATORS[text[at : at + 2]]}")
            at += 2
        elif outermost:
            raise _NotUnderstood  # conversion, literal operator …
        else:
            at += 1
    return parts, at


def _call(text: str, at: int) -> bool:
    """Expressions that end with an E of their own."""
    return text[at : at + 2] in ("cl", "il", "tl", "nw", "na")


def _literal(text: str, at: int, stack: list[str]) -> int:
    """The place behind a literal's type and value, in which digits are not lengths."""
    if text.startswith("_Z", at):
        stack.append("L")
        return at + 2
    while text[at] in "PRKOV":
        at += 1
    if text[at] in "NF":
        _, at = _walk(text, at + 1, text[at])
    elif match := _NUMBER.match(text, at):
        at = match.end() + int(match[0])
    elif match := _SUBSTITUTION.match(text, at):
        at = match.end()
        if match[0] == "St" and (match := _NUMBER.match(text, at)):
            at = match.end() + int(match[0])
    else:
        at += 2 if text[at] == "D" else 1
    while at < len(text) and text[at] == "I":
        _, at = _walk(text, at + 1, "I")
    if not (match := _LITERAL_VALUE.match(text, at)):
        raise _NotUnderstood
    return match.end()
