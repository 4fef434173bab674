"""Counts four habits of prose that make a reader read twice, folder by folder, and compares with what is allowed.

    python scripts/dialect.py             the counts of each folder
    python scripts/dialect.py --show DIR  each place under DIR
    python scripts/dialect.py --check     fails where a folder has more than scripts/dialect_allowed.json permits
    python scripts/dialect.py --write     writes the present counts there

The habits, each with the cure:

- belongs: "is of the step" -> "belongs to the step"
- tells: "tells", "told" -> "records", "reports", "says", "names"
- clauses: a relative clause in place of a noun, "What ran ...", "who asks" -> the noun
- names: `found`, `told`, `made` as the only name of a value -> `rows`, `labels`, `executions`

Prose is Python's docstrings, comments and string literals, the comments of C++ and JavaScript, and Markdown outside code.
The allowed numbers may only fall: after a change that lowers them, `--write`.
"""

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = Path(__file__).with_name("dialect_allowed.json")

# Verbs behind which a clause with "what" is a question, as in "a line says what is missing".
ASKING = ("say", "says", "show", "shows", "list", "lists", "see", "check", "checks", "know", "knows", "defines", "who does")
PROSE = {
    "belongs": re.compile(r"\b(?:is|are|was|were|be) (?:not )?of\b(?! (?:type|interest|use)\b)"),
    "tells": re.compile(r"\b(?:tells?|told|telling)\b", re.IGNORECASE),
    "clauses": re.compile(
        r"\b(?<!, )[Ww]hatever\b|" + "".join(f"(?<!(?i:{verb}) )" for verb in ASKING) + r"\b[Ww]hat\b(?! to do\b)(?![^.:;]*\?)"
        r"|(?:^|[.:;(] |\b(?:of|for|by|to|from|with|than|as|and|or) )(?:Who|who)(?:ever)?\b(?! does what\b)(?![^.:;]*\?)"
        r"|\bwhoever\b|\bthat which\b"
    ),
    "names": re.compile(r"\b(?:was|were|is|are|been|never) met\b"),
}
NAMES = frozenset(("found", "told", "known", "met", "made", "rest", "taken", "done", "ran"))
SUFFIXES = {".py", ".md", ".cpp", ".hpp", ".js"}
# Folders below these are counted one by one, everything else by its first folder.
DEEP = ("src/aiflame", "native", "tests")

SLASH_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
FENCE = re.compile(r"^```.*?^```|`[^`\n]*`|^    .*?$", re.MULTILINE | re.DOTALL)
# In Markdown: headings, bold titles and the heads of tables may be questions; targets of links are addresses.
TITLES = re.compile(r"^#+ .*$|\*\*[^*\n]+\*\*|^\|.*\|$(?=\n\|[ |-]+$)|\]\([^)\s]*\)", re.MULTILINE)
# In Python's strings `{...}` is code, in JavaScript's comments it is a type, and a parameter's name follows it.
PLACEHOLDERS = re.compile(r"\{[^{}\n]*\}")
TYPES = re.compile(r"(?:@param )?\{[^\n]*\}(?: \[?\w+)?")


@dataclass(frozen=True)
class Hit:
    path: str
    line: int
    habit: str
    text: str


def main() -> int:
    parser = argparse.ArgumentParser(description="Counts habits of prose that make a reader read twice.")
    parser.add_argument("--show", metavar="DIR", help="print each place under this folder or file")
    parser.add_argument("--check", action="store_true", help="fail where a folder has more than is allowed")
    parser.add_argument("--write", action="store_true", help="make the present counts the allowed ones")
    options = parser.parse_args()
    hits = [hit for path in _files() for hit in _hits(path)]
    if options.show:
        for hit in hits:
            if hit.path.startswith(options.show):
                print(f"{hit.path}:{hit.line}: {hit.habit}: {hit.text}")
        return 0
    counts = _by_folder(hits)
    if options.write:
        ALLOWED.write_text(json.dumps(counts, indent=1) + "\n")
        return 0
    if options.check:
        return _check(counts)
    for folder, habits in counts.items():
        print(f"{folder:32}", *(f"{habit} {habits[habit]:5}" for habit in (*PROSE,)))
    print(f"{'total':32}", *(f"{habit} {sum(habits[habit] for habits in counts.values()):5}" for habit in PROSE))
    return 0


def _check(counts: dict[str, dict[str, int]]) -> int:
    allowed: dict[str, dict[str, int]] = json.loads(ALLOWED.read_text())
    more = [
        f"{folder}: {habit} {number}, allowed {allowed.get(folder, {}).get(habit, 0)}"
        for folder, habits in counts.items()
        for habit, number in habits.items()
        if number > allowed.get(folder, {}).get(habit, 0)
    ]
    for line in more:
        print(line)
    if more:
        print("See `python scripts/dialect.py --show FOLDER`; the habits and their cures are in scripts/dialect.py.")
    return 1 if more else 0


def _by_folder(hits: list[Hit]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {}
    for hit in hits:
        counts.setdefault(_folder(hit.path), Counter())[hit.habit] += 1
    return {folder: {habit: counts[folder][habit] for habit in PROSE} for folder in sorted(counts)}


def _folder(path: str) -> str:
    parent = str(Path(path).parent)
    for root in DEEP:
        if path.startswith(root + "/"):
            below = Path(parent).relative_to(root).parts
            # The scripts and styles of the report are another language than the Python beside them.
            return f"{root}/render/web" if below[:2] == ("render", "web") else "/".join((root, *below[:1]))
    return parent.split("/")[0]


def _files() -> Iterator[Path]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in sorted(listed.stdout.splitlines()):
        path = ROOT / name
        if path.suffix in SUFFIXES and path.is_file() and path != Path(__file__).resolve():
            yield path


def _hits(path: Path) -> Iterator[Hit]:
    text = path.read_text()
    name = str(path.relative_to(ROOT))
    for line, prose in _prose(path.suffix, text):
        for habit, pattern in PROSE.items():
            for match in pattern.finditer(prose):
                around = " ".join(prose[max(0, match.start() - 60) : match.end() + 60].split())
                yield Hit(name, line + prose.count("\n", 0, match.start()), habit, around)
    if path.suffix == ".py":
        for line, bound in _names(ast.parse(text)):
            yield Hit(name, line, "names", f"`{bound}`")


def _prose(suffix: str, text: str) -> Iterator[tuple[int, str]]:
    """Pieces of prose, each with the number of its first line."""
    if suffix == ".py":
        yield from _python(text)
    elif suffix == ".md":
        yield 1, TITLES.sub("", FENCE.sub(lambda code: "\n" * code.group().count("\n"), text))
    else:
        for comment in SLASH_COMMENT.finditer(text):
            prose = comment.group().lstrip("/* ")
            yield text.count("\n", 0, comment.start()) + 1, TYPES.sub("", prose) if suffix == ".js" else prose


def _python(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")
        elif token.type == tokenize.STRING or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            # A string without a space is a key, not a sentence.
            prose = PLACEHOLDERS.sub("", token.string.strip("\"'rbfRBF"))
            yield token.start[0], prose if " " in prose else ""


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Parameters and variables that carry one of NAMES, each at the place that binds it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.arg in NAMES:
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMES:
            yield node.lineno, node.id


if __name__ == "__main__":
    sys.exit(main())
