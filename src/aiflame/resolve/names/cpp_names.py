"""Demangled C++ (and Rust) names, shortened to scope and name, without types.

`void at::native::(anonymous namespace)::foo<float, 4>(at::Tensor&)::{lambda(int)#2}::operator()(int) const` becomes
`at::native::foo::{lambda#2}`.
"""

from __future__ import annotations

import re

_OPERATOR = (
    r"\boperator *(?:\"\" ?\w+|(?:new|delete)(?:\[\])?(?!\w)|\(\)|\[\]|<=>|<<=|>>=|->\*|->"
    r"|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%^&|]=?|[<>=!~,])"
)
_TOKEN = re.compile(
    rf"(?P<operator>{_OPERATOR})"
    r"|(?P<anonymous>\(anonymous namespace\)(?:::)?)"
    r"|(?P<note> ?\[(?:clone|abi:|with )[^\]]*\])"
    r"|(?P<word>\boperator (?=[^(]))"
    r"|(?P<pointer>\([*&]+)"
    r"|(?P<open>[<(\[])"
    r"|(?P<close>[>)\]])"
    r"|(?P<other>[^<>()\[\]{} o]+|.)"
)
_BRACKET = re.compile(rf"{_OPERATOR}|->|[<>()\[\]{{}}]")
_QUALIFIER = re.compile(r" (?:const|volatile|&&?|noexcept)(?= |::|$)")
_PREFIX = re.compile(r"^(?:(?:non-)?virtual thunk to |guard variable for |TLS (?:init|wrapper) function for )")
_OPENER = {">": "<", ")": "(", "]": "[", "}": "{"}
_INNER_SPACE = "\0"
_STANDARD = (("std::__cxx11::", "std::"), ("std::__1::", "std::"), ("std::basic_string", "std::string"))


def shorten(name: str) -> str:
    """The name without parameters, template arguments, return type, anonymous namespaces and marks of the compiler."""
    name = _PREFIX.sub("", name)
    text = _kept_parts(name) if any(letter in name for letter in "<([{ ") else name
    while (less := _QUALIFIER.sub("", text)) != text:
        text = less
    text = text.strip().rpartition(" ")[2].replace(_INNER_SPACE, " ")
    for old, new in _STANDARD:
        text = text.replace(old, new)
    return text.replace("}::operator()", "}").replace("}::_FUN", "}").replace("::::", "::").strip(":").lstrip("&*") or name


def _kept_parts(name: str) -> str:
    """The text outside all brackets but braces, and `X` of Rust's `<X as Y>`."""
    kept: list[str] = []
    at = braces = 0
    converting = False
    while match := _TOKEN.match(name, at):
        kind, token = match.lastgroup, match[0]
        at = match.end()
        if kind == "open":
            converting = converting and token != "("
            end = _after(name, match.start())
            if token == "<" and not kept and (own := _left_of_as(name[at : end - 1])):
                kept.append(shorten(own))
            at = end
        elif kind == "pointer":
            kept.append(" ")  # `void (*f(int))(char)`: f returns a pointer to a function
        elif kind == "operator":
            kept.append(_operator(token))
        elif kind == "word":
            kept.append("operator" + _INNER_SPACE)
            converting = True  # `operator unsigned long`: spaces are part of the name
        elif kind == "other":
            braces += (token == "{") - (token == "}")
            kept.append(_INNER_SPACE if token == " " and (braces > 0 or converting) else token)
    return "".join(kept)


def _after(name: str, at: int) -> int:
    """The place behind the bracket that closes the one at `at`. A `>` that compares is inside parentheses, and closes nothing."""
    nested: list[str] = []
    for match in _BRACKET.finditer(name, at):
        token = match[0]
        if token in "<([{":
            nested.append(token)
        elif opener := _OPENER.get(token):
            if nested[-1] == opener:
                nested.pop()
            elif token != ">" and opener in nested:
                while nested.pop() != opener:
                    pass
            if not nested:
                return match.end()
    return len(name)


def _left_of_as(text: str) -> str:
    """`X` of `X as Y`, where `X` may contain such a pair."""
    depth = 0
    for match in re.finditer(r"[<(\[]|(?<!-)>|[)\]]| as ", text):
        token = match[0]
        if token == " as " and depth == 0:
            return text[: match.start()]
        depth += (token in "<([") - (token in ">)]")
    return text


def _operator(token: str) -> str:
    symbol = token.removeprefix("operator").strip()
    return f"operator{_INNER_SPACE}{symbol}" if symbol[0].isalpha() else f"operator{symbol.replace(' ', '')}"
