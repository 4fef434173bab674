"""Masks secrets in command lines before a profile keeps them. Standard library alone.

A profile is passed on, and the command that it shows may contain a token, a password or a key. Values are hidden if their name marks them
as secret (`--api-key X`, `HF_TOKEN=X`, `"Authorization: Bearer X"`), or if they have the form of a known kind of secret, under any name.
Usual options of training programs (`--max-tokens 512`, `--pad-token "<pad>"`, `--sort-key name`) are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from aiflame.profile.secrets.password_options import without_passwords, without_passwords_in_text

MASK = "***"

_SECRET = frozenset(
    {
        "secret", "secrets", "password", "passwords", "passwd", "pwd", "passphrase", "passcode", "credential", "credentials", "pat",
        "jwt", "authorization", "cookie", "cookies",
    }
)  # fmt: skip
"""Words in a name whose value is always hidden."""
_TOKEN = frozenset(
    {
        "token", "auth", "bearer", "apikey",
    }
)  # fmt: skip
_GLUED = (
    r"(?:api|access|secret|private|auth|signing|encryption|account|storage|master|license|shared)key$"
    r"|(?:auth|access|api)token$|(?:password|passwd)$|^(?:ssh|db|my|pg|user|root|admin)pass$"
)
"""Names of secrets that are written as one word."""
_KEY_OF = frozenset(
    {
        "api", "access", "secret", "private", "auth", "signing", "encryption", "account", "storage", "master", "license", "shared", "ssh",
        "service", "session", "client",
    }
)  # fmt: skip
_OF_TEXT = frozenset(
    {
        "bos", "eos", "pad", "sep", "cls", "mask", "unk", "unknown", "image", "video", "audio", "special", "stop", "start", "end",
        "begin", "think", "thinking", "speech", "text", "vision", "prompt", "suffix", "prefix", "boundary", "blank", "space", "word",
        "first", "last", "next", "new", "num", "max", "min", "per", "tool", "fim", "system", "user", "assistant", "eot", "eom", "eod",
    }
)  # fmt: skip
"""Words before `token` that make it a token of a language model."""
_ABOUT = frozenset(
    {
        "file", "files", "path", "dir", "folder", "size", "length", "len", "count", "id", "ids", "index", "name", "names", "type", "kind",
        "policy", "url", "uri", "host", "port", "ttl", "timeout", "expiry", "env", "var", "variable", "field", "column", "format",
        "provider", "manager", "store", "mode", "method", "scheme", "algorithm", "bits", "dim", "dims", "limit", "rate", "embedding",
        "embeddings", "level", "min", "max", "num", "number", "chars", "required", "enabled", "helper", "prompt",
    }
)  # fmt: skip
"""A name with such an ending describes a secret without being one."""
_HARMLESS = (
    r"(?i)(?:[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|true|false|yes|no|on|off|none|null|auto|default|env|required|optional|basic|digest|"
    r"<[^<>\s]*>|\[[^\]\s]*\]|\$\{?\w+\}?|\*+)?"
)
"""Numbers, switches, a model's special tokens, and variables that a shell will expand."""

_SHAPES = r"""(?xs)
      (?<![\w-])(?:
        hf_[A-Za-z0-9]{20,}                                     # Hugging Face
      | sk-(?=[\w-]*\d)[A-Za-z0-9_-]{16,}                       # OpenAI, Anthropic
      | (?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}             # Stripe
      | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,}         # GitHub
      | glpat-[\w-]{16,}                                        # GitLab
      | xox[abeprs]-[\w-]{10,}                                  # Slack
      | (?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Za-z])      # AWS
      | AIza[\w-]{35} | ya29\.[\w-]{20,}                        # Google
      | npm_[A-Za-z0-9]{36} | pypi-[\w-]{40,}                   # package registries
      | nvapi-[\w-]{20,} | gsk_[A-Za-z0-9]{20,} | r8_[A-Za-z0-9]{30,} | dop_v1_[0-9a-f]{40,} | dapi[0-9a-f]{32}
      | SG\.[\w-]{16,}\.[\w-]{16,}                              # SendGrid
      | eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+                      # JSON web tokens
      )
      | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----(?:.*?-----END\ [A-Z ]*PRIVATE\ KEY-----|.*)
    """
_SHORTEST_SHAPE = len("xoxb-0123456789")
_USER = r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s/@:?#]*:)[^\s/@]+(?=@)"
_USER_ALONE = r"(https?://)[^\s/@:?#]{20,}(?=@)"
"""`https://TOKEN@host`"""
_BEARER = r"(?i)\b(Bearer|Basic)(\s+)(?=[^\s\"']*[\d=._+/-])[^\s\"']{8,}"
_HEADER = r"(?P<name>(?<![\w-])[A-Za-z][\w-]{0,100})(?P<between>\"?:\s*\"?)(?P<value>[^\s\"',;{}]+(?:\s+[^\s\"',;{}]+)?)"
"""A header of HTTP, or an entry of JSON."""
_ASSIGNED = r"(?P<name>(?<![\w.-])-{0,2}[A-Za-z_][\w.-]{0,100})(?P<between>=)(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"'&;,]+)"
_FLAG_IN_TEXT = r"(?P<name>(?<![\w-])--?[A-Za-z][\w.-]*)(?P<between>\s+)(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"'-][^\s\"']*)"
_FLAG = r"--?([A-Za-z][\w.-]*)"
_WORDS = r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+"
_QUERY = frozenset({"sig", "signature", "x-amz-signature", "x-amz-credential", "x-goog-signature"})


def masked_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """A command line, argument by argument."""
    shown: list[str] = []
    flag = ""
    for argument in without_passwords(arguments, MASK):
        if flag and not argument.startswith("-") and _hides(flag, argument):
            shown.append(MASK)
        else:
            shown.append(masked(argument))
        match = re.fullmatch(_FLAG, argument)
        flag = match[1] if match else ""
    return tuple(shown)


def masked_command(command: str) -> str:
    """A command line as tables keep it: arguments separated by NUL."""
    return "\0".join(masked_arguments(command.split("\0")))


def masked(text: str) -> str:
    """A text that may contain several things: a shell's command, a header, an address.

    A pattern is compiled and used only where the text has a character that it needs: most arguments are one word.
    """
    if len(text) >= _SHORTEST_SHAPE:
        text = re.sub(_SHAPES, MASK, text)
    if "://" in text:
        text = re.sub(_USER, rf"\1{MASK}", text)
        text = re.sub(_USER_ALONE, rf"\1{MASK}", text)
    several_words = len(text.split(None, 1)) > 1
    if several_words:
        text = without_passwords_in_text(text, MASK)
        text = re.sub(_BEARER, rf"\1\2{MASK}", text)
    if "=" in text:
        text = re.sub(_ASSIGNED, _named, text)
    if several_words:
        text = re.sub(_FLAG_IN_TEXT, _named, text)
    if ":" in text:
        text = re.sub(_HEADER, _named, text)
    return text


def _named(match: re.Match[str]) -> str:
    name, between, value = match["name"], match["between"], match["value"]
    if between.strip() == ":" and "-" not in name and not _certain(name):
        return match[0]  # a colon separates many kinds of things
    bare = value.strip("\"'")
    if value.startswith("//") or not _hides(name.lstrip("-"), bare):
        return match[0]
    return f"{name}{between}{value.replace(bare, MASK) if bare else value}"


def _certain(name: str) -> bool:
    words = [word.lower() for word in re.findall(_WORDS, name)]
    return bool(words) and (words[-1] in _SECRET or _is_key(words) or bool(re.search(_GLUED, words[-1])))


def _is_key(words: list[str]) -> bool:
    return len(words) > 1 and words[-1] == "key" and words[-2] in _KEY_OF


def _hides(name: str, value: str) -> bool:
    """True if the value of this name is a secret."""
    if name.lower() in _QUERY:
        return True
    words = [word.lower() for word in re.findall(_WORDS, name) if not word.isdigit()]
    if not words or not value:
        return False
    last = words[-1]
    if last in _ABOUT:
        return False
    if _certain(name) or not _SECRET.isdisjoint(words):
        return not re.fullmatch(_HARMLESS, value) or (last in _SECRET and bool(re.fullmatch(r"\d{3,}", value)))
    if last in _TOKEN or re.search(_GLUED, last):
        return not (len(words) > 1 and words[-2] in _OF_TEXT) and not re.fullmatch(_HARMLESS, value)
    if last in ("key", "keys") or not _TOKEN.isdisjoint(words):
        return _looks_random(value)
    return False


def _looks_random(value: str) -> bool:
    """Long, without separators, with letters and digits mixed: a secret, if the name could mean anything."""
    return bool(re.fullmatch(r"[A-Za-z0-9_+/=-]{16,}", value)) and bool(re.search(r"\d", value)) and bool(re.search(r"[A-Za-z]", value))
