"""Paths of a profile are joined and opened by `profile/folder/door.py` alone, and by `below.py`, which it calls: the source is read for
expressions that do it elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src" / "aiflame"
DOOR = frozenset({"profile/folder/door.py", "profile/folder/below.py"})

PARTS = frozenset(
    {
        "meta.json", "control", "spool", "tables", "tables.partial", "seal.lock", "seal.failed", "binaries", "jit", "cubins",
        "kept", "requests", "telemetry", "intra", "ranks", "index.json",
    }
)  # fmt: skip
"""Things in a profile."""
PROFILES = frozenset({"path", "profile", "whole", "store"})
"""How values are called that are profiles, or paths of one."""
METHODS = frozenset(
    {
        "open", "read_text", "read_bytes", "write_text", "write_bytes", "stat", "lstat", "exists", "lexists", "is_symlink", "iterdir",
        "glob", "rglob", "unlink", "rmdir", "mkdir", "makedirs", "touch", "chmod", "symlink_to", "hardlink_to", "scandir", "listdir",
        "rmtree", "copyfile", "copytree", "scan_parquet", "read_parquet", "sink_parquet", "write_parquet", "read_csv", "scan_csv",
    }
)  # fmt: skip
"""Functions and methods that take a path or belong to one."""
MODULES = frozenset({"os", "shutil", "tempfile"})
"""Of these modules, every function that takes a path counts."""
OF_MODULES = frozenset({"remove", "rename", "replace", "link", "symlink", "walk", "access", "truncate", "utime", "copy", "move", "chown"})
OPENERS = frozenset({"Folder", "ControlPage"})
"""Their `open` goes through the door."""

WHAT_OTHERS_OPEN = {
    "agents/access.py": "aiflame.open, below folders that the agent's user named",
    "agents/query_child.py": "aiflame.open",
    "agents/recording.py": "the name of a profile that is to be recorded",
    "agents/sandbox.py": "/proc/self",
    "agents/tools.py": "folders of profiles, to compare them by number and time",
    "always/children.py": "/dev/null",
    "always/discovery.py": "/proc",
    "always/facts.py": "/proc; the main script of a process of this user, and the names of commits beside it",
    "analyze/kernel/source_text.py": "sources below the folder of --source-path, which the reader named",
    "cli/support/hardware_report.py": "aiflame.open",
    "cli/support/browser.py": "a page of our own in a private folder",
    "cli/demo.py": "aiflame.open",
    "cli/doctor.py": "aiflame.open, and the report that the user asked for",
    "cli/describe.py": "our own documentation",
    "cli/support/say.py": "the file that the user named, for its size",
    "cli/support/sealer.py": "aiflame.open",
    "cli/support/view.py": "aiflame.open",
    "exchange/readers/databases.py": "the traces that the user named",
    "exchange/readers/door.py": "the traces that the user named",
    "exchange/readers/many_files.py": "the traces that the user named",
    "exchange/readers/memory/memray.py": "the first line of the `memray` on the user's PATH",
    "exchange/readers/nsys/report.py": "the traces that the user named",
    "exchange/readers/nsys/tables.py": "the traces that the user named",
    "exchange/readers/nsys/trial.py": "the traces that the user named",
    "exchange/readers/own_sources.py": "our own sources, for their sizes and times",
    "exchange/readers/sampled/perf_names.py": "the traces that the user named, for their times",
    "exchange/readers/rocm/csv_files.py": "the traces that the user named",
    "exchange/readers/rocm/code_objects.py": "files beside the traces that the user named",
    "exchange/readers/source.py": "the traces that the user named",
    "dump/calls.py": "/proc",
    "dump/names.py": "the files that a process has mapped, by /proc/PID/root: the mapped inode alone",
    "dump/ranks.py": "/proc",
    "dump/sockets.py": "/proc",
    "dump/target.py": "/proc",
    "exchange/readers/sources.py": "the traces that the user named",
    "exchange/readers/sqlite_file.py": "the traces that the user named",
    "exchange/readers/xla/run_folder.py": "the traces that the user named",
    "exchange/readers/sqlite_pages.py": "the traces that the user named",
    "exchange/writers/parquet.py": "the folder that the user named",
    "flight.py": "inside the recorded program: a file of its own recording",
    "intra/capture_writer.py": "inside the recorded program: a file of its own recording",
    "intra/compile_hook.py": "our own source",
    "notebook/magic.py": "aiflame.open; the temporary folder of the profiles of this kernel",
    "profile/sealing/aside.py": "a folder of the door's, for its time",
    "profile/folder/user_cache.py": "the user's cache",
    "profile/folder/user_state.py": "the user's state folder",
    "push/destination.py": "the file of headers that the user named",
    "profile/folder/claims.py": "the user's state folder",
    "profile/schema/describe.py": "our own documentation",
    "profile/schema/generate_header.py": "our own source",
    "profile/tables/index.py": "Parquet into memory",
    "profile/spool/living.py": "/proc; the profile that a process there names, to compare it by number",
    "profile/folder/meta.py": "/proc",
    "profile/folder/other_root.py": "/proc; regular files below the root folder of a program in a container, for those that are named here",
    "profile/opening.py": "names of profiles in a folder that the user named",
    "profile/tables/store.py": "Parquet by descriptor",
    "recorder/attach/cubins.py": "/proc; regular files in the caches of Triton and Inductor that the program uses",
    "recorder/attach/family.py": "/proc",
    "recorder/attach/injector.py": "/proc, and the memory of the program that is attached to",
    "recorder/attach/listing.py": "/proc",
    "recorder/attach/sending.py": "/proc; our own library, and our Python for programs",
    "recorder/attach/settling.py": "/proc",
    "recorder/attach/unseen.py": "/proc",
    "recorder/attach/target.py": "/proc; paths of ours below the program's root, to compare them by number",
    "recorder/checkup.py": "this machine",
    "recorder/hardware.py": "this machine",
    "recorder/checkup_cuda.py": "this machine",
    "recorder/checkup_intel.py": "this machine",
    "recorder/checkup_rocm.py": "this machine",
    "recorder/command.py": "the program that is recorded",
    "recorder/eu_stalls/devices.py": "/sys and /dev",
    "recorder/eu_stalls/sampler.py": "/dev; maps of recorded programs in /proc",
    "recorder/hand_over.py": "/proc/self/fd",
    "recorder/keep.py": "/proc, and files that the recorded program has mapped or written",
    "recorder/library.py": "our own library",
    "recorder/numbers.py": "/proc",
    "recorder/view.py": "/proc",
    "recorder/place.py": "the folder that the user named, before it is a profile; /proc",
    "recorder/sources/base.py": "/proc and /sys",
    "recorder/supervise.py": "/dev/null",
    "recorder/sources/cpu.py": "/proc and /sys",
    "recorder/sources/nvidia.py": "/dev",
    "recorder/sources/processes.py": "/proc",
    "recorder/sources/quota.py": "/proc and /sys",
    "recorder/sources/system.py": "/proc and /sys",
    "recorder/sources/vendors.py": "/sys",
    "recorder/looks/kernel.py": "/proc",
    "recorder/looks/memory.py": "/proc",
    "recorder/looks/modules.py": "/proc; our own library",
    "recorder/looks/waits.py": "/proc",
    "recorder/ring/asking.py": "/proc",
    "recorder/ring/trim.py": "/proc",
    "recorder/ring/flight.py": "the name of a profile that is to be made",
    "resolve/files/by_build_id.py": "ELF files with a build id that a recording of perf has; symbols of the kernel; /tmp/perf-PID.map",
    "render/bundle.py": "our own page",
    "render/report/page.py": "our own page",
    "render/output.py": "the file that the user named",
    "render/flame_svg/svg.py": "our own page",
    "resolve/native/debug_lines.py": "a descriptor, by /proc/self/fd",
    "resolve/native/kept_lines.py": "a descriptor, by /proc/self/fd; its time",
    "resolve/files/elf_file.py": "files for outside.py",
    "resolve/jit/dumps.py": "names for outside.py",
    "resolve/files/code_files.py": "/proc/self; names for outside.py",
    "resolve/device/iga.py": "Intel's disassembler, a library",
    "resolve/device/llvm_objdump.py": "LLVM's tools, and files of our own for them",
    "resolve/device/nvdisasm.py": "NVIDIA's tools, and files of our own for them",
    "resolve/files/outside.py": "files beside a profile of this user's own",
    "resolve/device/triton_lines.py": "names for outside.py",
    "store/layout.py": "the folder above the store that the user named",
    "store/tables.py": "Parquet into memory, and from a descriptor",
    "target/bootstrap.py": "inside the recorded program: its own modules",
    "target/moments.py": "inside the recorded program: a file of its own recording",
    "target/kept_files.py": "inside the recorded program: a file of its own recording",
}
"""All files that open anything by a path, and why that is no path of a stranger's profile."""

ONLY_OPEN_A_PROFILE = {name for name, what in WHAT_OTHERS_OPEN.items() if what == "aiflame.open"}


def opened(source: str) -> Iterator[str]:
    """Expressions that open something by a path."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _opens(node.func):
            yield f"{node.lineno}: {ast.unparse(node)}"


def joined(source: str) -> Iterator[str]:
    """Expressions that put a path of a profile together, other than for a message."""
    tree = ast.parse(source)
    messages = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in messages:
            continue
        if isinstance(node, ast.Call | ast.BinOp) and _joins(node):
            yield f"{node.lineno}: {ast.unparse(node)}"


def _joins(call: ast.Call | ast.BinOp) -> bool:
    if isinstance(call, ast.BinOp):
        return isinstance(call.op, ast.Div) and (_is_profile(call.left) or _is_part(call.right))
    if ast.unparse(call.func) == "os.path.join":
        return any(_is_profile(each) or _is_part(each) for each in call.args)
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("joinpath", "with_name") and _is_profile(call.func.value)


def _opens(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in ("open", "rmtree", "copyfile")
    if not isinstance(function, ast.Attribute):
        return False
    base = ast.unparse(function.value)
    if base in MODULES:
        return function.attr in METHODS | OF_MODULES
    return function.attr in METHODS and base not in OPENERS


def _is_profile(node: ast.expr) -> bool:
    """`profile.path`, `self._profile`, `store.path`: values called so, and attributes of values called so."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.removeprefix("_") in PROFILES - {"path"} or (
        name == "path" and isinstance(node, ast.Attribute) and not ast.unparse(node).startswith(("os.", "file.", "sys.", "module."))
    )


def _is_part(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in PARTS


def ours() -> dict[str, str]:
    files = {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    return {name: text for name, text in files.items() if not name.startswith("demo/") and name not in DOOR}


def test_only_known_files_open_anything_by_its_path():
    by_file = {name: list(opened(text)) for name, text in ours().items()}
    assert {name: lines for name, lines in by_file.items() if lines and name not in WHAT_OTHERS_OPEN} == {}


def test_the_list_of_files_that_open_something_is_no_longer_than_needed():
    sources = ours()
    assert [name for name in WHAT_OTHERS_OPEN if not any(opened(sources.get(name, "")))] == []


def test_sealed_tables_are_opened_in_one_place():
    """Reading goes through `opening.py`, which seals the profile, adds derived tables and aligns clocks."""
    makes = {name for name, text in ours().items() if "SealedTables(" in text}
    assert makes == {"profile/opening.py"}


def test_the_security_page_lists_every_file_that_was_checked():
    page = (SOURCE.parents[1] / "docs/security.md").read_text(encoding="utf-8").partition("## Files that were checked")[2]
    opening = {*DOOR, *WHAT_OTHERS_OPEN} - ONLY_OPEN_A_PROFILE
    assert sorted(name for name in opening if f"`{name}`" not in page) == []
    assert sorted(name for name in re.findall(r"`(\w+/[\w/]+\.py)`", page) if not (SOURCE / name).is_file()) == []


ITS_OWN_RECORDING = {
    "recorder/place.py": 1,  # how the folder of a rank is called, for the environment of the program
    "target/intra.py": 1,
    "target/kept_files.py": 1,
}


def test_the_door_alone_opens_below_a_descriptor():
    assert [
        name for name, text in ours().items() if re.search(r"^from \S+ import below$|^from \S*\bbelow import", text, re.MULTILINE)
    ] == []


def test_nobody_puts_a_path_of_a_profile_together():
    by_file = {name: list(joined(text)) for name, text in ours().items()}
    assert {name: lines for name, lines in by_file.items() if len(lines) != ITS_OWN_RECORDING.get(name, 0)} == {}


@pytest.mark.parametrize(
    "source",
    [
        "open(profile.path)",
        "(folder / name).read_bytes()",
        "os.rename(a, b)",
        "shutil.rmtree(path)",
        "pl.scan_parquet(files)",
        "path.open('rb')",
        "list(folder.glob('*'))",
        "with gzip.open(path) as file: pass",
        "os.open(name, flags, dir_fd=folder)",
        "ElfFile.open(path)",
    ],
)
def test_a_call_that_opens_a_path_is_found(source):
    assert len(list(opened(source))) == 1


@pytest.mark.parametrize("source", ["Folder.open(path)", "profile.folder('jit').file(name)", "text.replace('a', 'b')", "words.copy()"])
def test_a_call_that_opens_no_path_is_not_found(source):
    assert list(opened(source)) == []


@pytest.mark.parametrize(
    "source",
    [
        "profile.path / 'spool'",
        "self._profile / name",
        "store.path / file",
        "read(profile / FOLDER)",
        "folder / 'meta.json'",
        "os.path.join(whole, 'ranks')",
        "profile.path.joinpath(*names)",
    ],
)
def test_a_call_that_joins_a_path_of_a_profile_is_found(source):
    assert len(list(joined(source))) == 1


@pytest.mark.parametrize("source", ["f'{profile.path / name} is missing'", "root / 'proc/meminfo'", "total / count"])
def test_a_call_that_joins_no_path_is_not_found(source):
    assert list(joined(source)) == []
