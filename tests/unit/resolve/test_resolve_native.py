"""Native frames: names, lines and inline chains of compiled programs whose truth they print themselves."""

from __future__ import annotations

import lzma
import random
import subprocess
from pathlib import Path

import polars as pl
import pytest
from binaries import Binary, build, run, symbols
from profiles import native, sealed, stack, this_machine

from aiflame.profile.folder.meta import Clocks, Meta
from aiflame.profile.opening import open_profile
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.store import Profile
from aiflame.resolve.symbols import resolve


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Binary:
    return build(tmp_path_factory.mktemp("program"))


@pytest.fixture(params=["pie", "fixed address"])
def any_program(request: pytest.FixtureRequest, program: Binary, tmp_path: Path) -> Binary:
    return program if request.param == "pie" else build(tmp_path / "fixed", pie=False)


def resolved(
    folder: Path, binary: Path, build_id: bytes, *words: int, debug_root: Path = Path("/nowhere"), meta: Meta | None = None, **module: int
) -> Profile:
    """A profile whose module 1 is `binary`, resolved."""
    row = {"path": str(binary), "build_id": build_id, **module}
    profile = sealed(folder / "p.aiflame", meta, modules=[row], stacks=stack(*words))
    resolve(profile, outside=this_machine(debug_root))
    return profile


def names(profile: Profile, word: int) -> list[str]:
    """Outermost first."""
    return rows(profile, word)["name"].to_list()


def rows(profile: Profile, word: int) -> pl.DataFrame:
    return profile.table("symbols").filter(pl.col("frame") == word).sort("depth")


def test_a_return_address_has_the_chain_of_inlined_functions_with_their_lines(any_program: Binary, tmp_path: Path) -> None:
    word = native(1, any_program.marks["leaf"])
    profile = resolved(tmp_path, any_program.path, any_program.build_id, word)
    frames = rows(profile, word)
    assert frames["name"].to_list() == ["app::outer", "middle", "leaf"]
    assert frames["depth"].to_list() == [0, 1, 2]
    assert frames["line"].to_list() == [any_program.line("in outer"), any_program.line("in middle"), any_program.line("in leaf")]
    assert set(frames["file"]) == {str(any_program.source)}
    assert set(frames["module"]) == {"program"}
    assert set(frames["offset"]) == {any_program.marks["leaf"]}


def test_names_are_short_and_the_full_one_is_kept(program: Binary, tmp_path: Path) -> None:
    outer, c = native(1, program.marks["outer"]), native(1, program.marks["plain_c"])
    profile = resolved(tmp_path, program.path, program.build_id, outer, c)
    (shown,) = rows(profile, outer).filter(pl.col("depth") == 0).to_dicts()
    assert (shown["full_name"], shown["kind"]) == ("int app::outer<int>(int)", Kind.CPP)
    (shown,) = rows(profile, c).filter(pl.col("depth") == 0).to_dicts()
    assert (shown["name"], shown["full_name"], shown["kind"], shown["line"]) == ("plain_c", "", Kind.C, program.line("in plain_c"))


def test_a_call_that_never_returns_belongs_to_its_own_function(program: Binary, tmp_path: Path) -> None:
    start, size = program.symbols["app::dies"]
    assert program.marks["dies"] == start + size, "the return address is past the function's end"
    word = native(1, program.marks["dies"])
    assert names(resolved(tmp_path, program.path, program.build_id, word), word) == ["app::dies"]


def test_an_exact_pc_belongs_to_the_function_it_begins(program: Binary, tmp_path: Path) -> None:
    start, _ = program.symbols["app::dies"]
    word = native(1, start, exact=True)
    assert names(resolved(tmp_path, program.path, program.build_id, word), word) == ["app::dies"]


def test_a_symbol_reaches_no_farther_than_its_size(program: Binary, tmp_path: Path) -> None:
    start, _ = program.symbols["short_one"]
    inside, beyond = native(1, start, exact=True), native(1, start + 1, exact=True)
    profile = resolved(tmp_path, program.path, program.build_id, inside, beyond)
    assert names(profile, inside) == ["short_one"]
    assert names(profile, beyond) == [f"[unknown] program+0x{start + 1:x}"]


def test_a_symbol_without_a_size_reaches_to_the_next(program: Binary, tmp_path: Path) -> None:
    start, _ = program.symbols["without_size"]
    word = native(1, start + 2, exact=True)
    assert names(resolved(tmp_path, program.path, program.build_id, word), word) == ["without_size"]


def test_of_two_names_for_one_place_the_plain_one_is_shown(program: Binary, tmp_path: Path) -> None:
    word = native(1, program.symbols["with_alias"][0], exact=True)
    assert names(resolved(tmp_path, program.path, program.build_id, word), word) == ["with_alias"]


@pytest.mark.parametrize("flags", [(), ("-fcf-protection", "-Wl,-z,ibtplt"), ("-Wl,-z,now", "-fno-plt")], ids=["plt", "plt.sec", "plt.got"])
def test_plt_stubs_are_named_after_their_function(tmp_path: Path, flags: tuple[str, ...]) -> None:
    binary = build(tmp_path, *flags)
    stubs = {}
    for line in run("objdump", "-d", "-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got", binary.path).splitlines():
        address, _, name = line.rstrip(">:").partition(" <")
        if name.endswith("@plt") and "*ABS*" not in name:
            stubs[native(1, int(address, 16), exact=True)] = name
    assert stubs
    profile = resolved(tmp_path, binary.path, binary.build_id, *stubs)
    assert {word: names(profile, word) for word in stubs} == {word: [name] for word, name in stubs.items()}


def test_debug_file_by_build_id(program: Binary, tmp_path: Path) -> None:
    stripped, root = tmp_path / "program", tmp_path / "debug"
    name = program.build_id.hex()
    (root / ".build-id" / name[:2]).mkdir(parents=True)
    run("objcopy", "--only-keep-debug", program.path, root / ".build-id" / name[:2] / f"{name[2:]}.debug")
    run("strip", "-o", stripped, program.path)
    word = native(1, program.marks["leaf"])
    frames = rows(resolved(tmp_path, stripped, program.build_id, word, debug_root=root), word)
    assert frames["name"].to_list() == ["app::outer", "middle", "leaf"]
    assert frames["line"].to_list() == [program.line("in outer"), program.line("in middle"), program.line("in leaf")]


def test_debug_file_alone_is_enough(program: Binary, tmp_path: Path) -> None:
    root, name = tmp_path / "debug", program.build_id.hex()
    (root / ".build-id" / name[:2]).mkdir(parents=True)
    run("objcopy", "--only-keep-debug", program.path, root / ".build-id" / name[:2] / f"{name[2:]}.debug")
    word = native(1, program.marks["leaf"])
    profile = resolved(tmp_path, tmp_path / "gone", program.build_id, word, debug_root=root)
    assert names(profile, word) == ["app::outer", "middle", "leaf"]


@pytest.mark.parametrize("whole", [True, False], ids=["right checksum", "wrong checksum"])
def test_debug_link_is_followed_when_its_checksum_is_right(tmp_path: Path, whole: bool) -> None:
    binary = build(tmp_path / "built", "-Wl,--build-id=none")
    stripped, debug = tmp_path / "program", tmp_path / "program.debug"
    run("objcopy", "--only-keep-debug", binary.path, debug)
    run("objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", binary.path, stripped)
    if not whole:
        with debug.open("ab") as file:
            file.write(b"\0")
    word = native(1, binary.marks["plain_c"])
    profile = resolved(tmp_path, stripped, b"", word, inode=stripped.stat().st_ino)
    assert rows(profile, word)["line"].to_list() == [binary.line("in plain_c") if whole else 0]


def test_without_a_name_module_and_offset_remain_and_a_function_stays_together(program: Binary, tmp_path: Path) -> None:
    stripped = tmp_path / "program"
    run("strip", "-o", stripped, program.path)
    words = [native(1, program.marks[mark]) for mark in ("hidden1", "hidden2")]
    profile = resolved(tmp_path, stripped, program.build_id, *words)
    start, _ = program.symbols["app::hidden"]
    for word, mark in zip(words, ("hidden1", "hidden2"), strict=True):
        (row,) = rows(profile, word).to_dicts()
        assert (row["name"], row["module"], row["offset"]) == (f"[unknown] program+0x{start:x}", "program", program.marks[mark])


def test_functions_that_a_stripped_library_exports_have_names(tmp_path: Path) -> None:
    library, source = tmp_path / "lib.so", tmp_path / "lib.c"
    source.write_text(
        "__attribute__((noinline)) static int inner(int x) { return x * 7 + 1; }\nint exported(int x) { return inner(x) + 3; }\n"
    )
    run("gcc", "-O1", "-shared", "-fPIC", "-o", library, source)
    start, _ = symbols(library)["exported"]
    run("strip", library)
    word = native(1, start, exact=True)
    profile = resolved(tmp_path, library, b"", word, inode=library.stat().st_ino)
    assert names(profile, word) == ["exported"]


def test_symbols_kept_in_debugdata_when_stripping(program: Binary, tmp_path: Path) -> None:
    small, packed, stripped = tmp_path / "small", tmp_path / "small.xz", tmp_path / "program"
    run("objcopy", "-S", "--remove-section", ".comment", "--keep-symbol=_ZN3appL6hiddenEi", program.path, small)
    packed.write_bytes(lzma.compress(small.read_bytes()))
    run("strip", "-o", stripped, program.path)
    run("objcopy", "--add-section", f".gnu_debugdata={packed}", stripped)
    word = native(1, program.marks["hidden1"])
    assert names(resolved(tmp_path, stripped, program.build_id, word), word) == ["app::hidden"]


@pytest.mark.parametrize("by", ["build-id", "inode"])
def test_a_binary_that_is_gone_is_read_from_the_kept_copy(program: Binary, tmp_path: Path, by: str) -> None:
    word = native(1, program.marks["leaf"])
    kept = tmp_path / "p.aiflame" / "binaries" / (program.build_id.hex() if by == "build-id" else "77-2049")
    kept.parent.mkdir(parents=True)
    kept.write_bytes(program.path.read_bytes())
    profile = resolved(tmp_path, tmp_path / "gone (deleted)", program.build_id, word, inode=77, device=2049)
    assert names(profile, word) == ["app::outer", "middle", "leaf"]
    assert set(rows(profile, word)["module"]) == {"gone"}


def test_a_file_that_was_replaced_since_gives_no_names(program: Binary, tmp_path: Path) -> None:
    other = build(tmp_path, "-DOTHER", "-O1")
    assert other.build_id != program.build_id
    word = native(1, program.marks["leaf"])
    profile = resolved(tmp_path, other.path, program.build_id, word)
    assert names(profile, word) == [f"[unknown] program+0x{program.marks['leaf'] - 1:x}"]
    assert open_profile(profile.path).notes() == [f"{other.path} has changed since it was recorded: its functions have no names"]


def test_a_file_that_is_gone_is_noted(tmp_path: Path) -> None:
    word = native(1, 0x1234, exact=True)
    profile = resolved(tmp_path, tmp_path / "libgone.so (deleted)", b"id", word)
    assert names(profile, word) == ["[unknown] libgone.so+0x1234"]
    assert profile.notes() == [f"{tmp_path}/libgone.so is gone: its functions have no names"]


@pytest.mark.parametrize("most", [1, 1 << 30])
def test_debug_information_beyond_the_limit_is_left_out_with_a_note(
    program: Binary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("aiflame.resolve.native.debug_lines.LARGEST_DEBUG", most)
    word = native(1, program.marks["leaf"])
    profile = resolved(tmp_path, program.path, program.build_id, word)
    assert names(profile, word) == (["app::outer"] if most == 1 else ["app::outer", "middle", "leaf"])
    assert len(profile.notes()) == (1 if most == 1 else 0)


@pytest.mark.parametrize("written", ["before", "after"])
def test_without_a_build_id_a_file_written_since_is_not_believed(tmp_path: Path, written: str) -> None:
    binary = build(tmp_path, "-Wl,--build-id=none")
    status = binary.path.stat()
    # The program was mapped at 5 s on its clock, a minute after (or before) the file was last written.
    mapped = status.st_mtime_ns + (60 if written == "before" else -60) * 1_000_000_000
    meta = Meta(started=Clocks(monotonic_ns=1, realtime_ns=mapped - 5_000_000_000 + 1))
    word = native(1, binary.marks["plain_c"])
    profile = resolved(tmp_path, binary.path, b"", word, meta=meta, inode=status.st_ino, seen_ns=5_000_000_000)
    assert (names(profile, word) == ["plain_c"]) == (written == "before")


@pytest.mark.parametrize("kernel", ["this", "another"])
def test_the_kernels_page_is_named_only_when_it_is_the_recorded_one(tmp_path: Path, kernel: str) -> None:
    page = tmp_path / "vdso.so"
    line = next(line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("[vdso]"))
    low, high = (int(part, 16) for part in line.split()[0].split("-"))
    with Path("/proc/self/mem").open("rb", buffering=0) as memory:
        memory.seek(low)
        page.write_bytes(memory.read(high - low))
    build_id = bytes.fromhex(run("readelf", "-n", page).partition("Build ID: ")[2].split()[0])
    start = next(int(line.split()[0], 16) for line in run("nm", "-D", page).splitlines() if "__vdso_getcpu" in line)
    word = native(1, start, exact=True)
    (name,) = names(resolved(tmp_path, Path("[vdso]"), build_id if kernel == "this" else b"another", word), word)
    assert name.strip("_").removeprefix("vdso_") == ("getcpu" if kernel == "this" else f"[vdso]+0x{start:x}")


def test_an_exact_pc_has_its_instruction(program: Binary, tmp_path: Path) -> None:
    start, _ = program.symbols["known"]
    words = [native(1, start, exact=True), native(1, start + 1, exact=True), native(1, start + 6)]
    profile = resolved(tmp_path, program.path, program.build_id, *words)
    assert profile.table("instructions").to_dicts() == [
        {"process": 0, "frame": words[0], "text": "nop", "function_offset": 0},
        {"process": 0, "frame": words[1], "text": "vfmadd231ps ymm0, ymm1, ymm2", "function_offset": 1},
    ]


def test_processes_share_a_library_under_ids_of_their_own(program: Binary, tmp_path: Path) -> None:
    module = {"path": str(program.path), "build_id": program.build_id}
    address = program.marks["outer"]
    profile = sealed(
        tmp_path / "p.aiflame",
        processes=[{"process": 0, "pid": 10}, {"process": 1, "pid": 11}],
        modules=[{"process": 0, **module}, {"process": 1, "path": "/nowhere/else"}, {"process": 1, **module}],
        stacks=[*stack(native(1, address)), *({"process": 1, **row} for row in stack(native(1, address), native(2, address)))],
    )
    resolve(profile, outside=this_machine())
    outermost = profile.table("symbols").filter(pl.col("depth") == 0).sort("process", "frame")
    assert outermost["name"].to_list() == ["app::outer", f"[unknown] else+0x{address - 1:x}", "app::outer"]


def test_an_address_that_was_seen_before_its_module_is_a_place_in_it(program: Binary, tmp_path: Path) -> None:
    base, start = 0x7F00_0000_0000, program.symbols["known"][0]
    module = {"path": str(program.path), "build_id": program.build_id, "base": base, "low": base + 0x1000, "high": base + 0x8000}
    replaced = {"path": "/nowhere/else", "base": base + 0x6000, "low": base + 0x7000, "high": base + 0x9000}
    inside, of_both, of_neither = (FrameKind.ADDRESS << 60 | base + at for at in (start, 0x7800, 0x9000))
    profile = sealed(tmp_path / "p.aiflame", modules=[module, replaced], stacks=stack(inside, of_both, of_neither))
    resolve(profile, outside=this_machine())
    assert names(profile, inside) == ["known"]
    assert [names(profile, word) for word in (of_both, of_neither)] == [
        ["[unknown] [JIT]+0x7f0000007800"],
        ["[unknown] [JIT]+0x7f0000009000"],
    ]


def test_a_module_that_was_lost_leaves_the_offset(tmp_path: Path) -> None:
    profile = sealed(tmp_path / "p.aiflame", stacks=stack(native(9, 0x1234)))
    resolve(profile)
    assert profile.table("symbols")["name"].to_list() == ["[unknown] module 9+0x1234"]


def test_damaged_binaries_are_no_failure(program: Binary, tmp_path: Path) -> None:
    """Headers and tables with wrong bytes: names may be wrong or missing, but there is an answer for every frame."""
    generator = random.Random(1)
    original = program.path.read_bytes()
    note = original.index(program.build_id)
    words = [native(1, address) for address in program.marks.values()] + [native(1, program.symbols["known"][0], exact=True)]
    (tmp_path / "p.aiflame").mkdir()
    for number in range(60):
        data = bytearray(original)
        for _ in range(30):
            place = generator.choice(
                [generator.randrange(16, 2048), generator.randrange(len(data) - 3000, len(data)), generator.randrange(len(data))]
            )
            if not note - 32 <= place < note + 20:
                data[place] = generator.choice([0, 255, generator.randrange(256)])
        if number % 4 == 0:
            del data[generator.randrange(note + 64, len(data)) :]
        path = tmp_path / f"damaged{number}"
        path.write_bytes(data)
        folder = tmp_path / str(number)
        profile = resolved(folder, path, program.build_id, *words)
        assert set(profile.table("symbols")["frame"]) == set(words)
        path.unlink()


def test_a_pipe_in_place_of_a_binary_is_not_waited_for(program: Binary, tmp_path: Path) -> None:
    pipe = tmp_path / "program"
    subprocess.run(["mkfifo", pipe], check=True)
    word = native(1, program.marks["leaf"])
    (name,) = names(resolved(tmp_path, pipe, program.build_id, word), word)
    assert name.startswith("[unknown] program+0x")
