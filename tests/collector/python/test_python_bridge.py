"""`_aiflame` in real interpreters: rows, regions and layers written by our Python code are in the profile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from python_programs import said

from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.schema.enums import PayloadType, RegionApi, RegionKind
from aiflame.profile.schema.records import Type
from interpreters import interpreter

NOW = "now"
ROWS: dict[str, list[int | str]] = {
    "codes": [2**32 - 1, "größer.py", "f", "line table", 0x030B],
    "gpu_functions": [2**64 - 1, "mangled"],
    "kernel_shapes": ["name", "device", 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    "launches": [1, 0, 2, 0xFFFF, 0xFFFFFFFF, 0, NOW, NOW, 2**64 - 1],
    "regions": [1, 4, 2, 1, 0xFFFFFFFF, "domain", "", "name", 2**64 - 1, NOW],
    "kept_files": ["kernel", "module", "ttir", "file"],
}


def test_each_value_comes_to_the_column_it_is_for(python: str, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    appended, (process,) = said(
        python,
        tmp_path,
        """
        import _aiflame
        rows, moment = {}, _aiflame.now_ns()
        with open("rows.json") as file:
            for name, row in json.load(file).items():
                rows[name] = _aiflame.append(name, *[moment if value == "now" else value for value in row])
        print(json.dumps([rows, moment]))
        """,
        cpu_rate=0,
    )
    rows, moment = appended
    for name, given in ROWS.items():
        recorded_processes = process.table(name).filter(id=rows[name]).drop("id").row(0)
        assert list(recorded_processes) == [
            moment if value == NOW else str(value).encode() if column.type is Type.BLOB else value
            for column, value in zip(TABLE[name].columns, given, strict=True)
        ]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("append()", "TypeError"),
        ("append(3)", "TypeError"),
        ("append('nothing', 1)", "ValueError"),
        ("append('marks')", "TypeError"),
        ("append('marks', 'a', 'b')", "TypeError"),
        ("append('marks', 3)", "TypeError"),
        ("append('stacks', 1, 'a')", "TypeError"),
        ("append('stacks', 1, 2.0)", "TypeError"),
        ("append('stacks', 1 << 32, 1)", "ValueError"),
        ("append('stacks', 1, 1 << 64)", "ValueError"),
        ("append('stacks', -1, 1)", "ValueError"),
        ("append(table='marks')", "TypeError"),
        ("push()", "TypeError"),
        ("push('a', name='b')", "TypeError"),
        ("push('a', colour=3)", "TypeError"),
        ("push('a', 'b', 'c', 1, 2)", "TypeError"),
        ("begin('a', payload='x')", "TypeError"),
        ("end('a')", "TypeError"),
        ("end()", "TypeError"),
        ("name_layer(1, 2, 3, 4)", "TypeError"),
        ("variant(-1, 'a', 'b', 'c')", "ValueError"),
        ("when_layers_are_new(3)", "TypeError"),
        ("note(3)", "TypeError"),
        ("calibrate_autograd(1, 2)", "TypeError"),
    ],
)
def test_wrong_arguments_raise(tmp_path: Path, call: str, error: str) -> None:
    python = interpreter("3.11") or pytest.skip("no CPython 3.11 here")
    program = f"import _aiflame\ntry:\n    _aiflame.{call}\nexcept Exception as error:\n    print(json.dumps(type(error).__name__))"
    assert said(python, tmp_path, program)[0] == error


def test_texts_that_have_no_utf_8_are_written_all_the_same(python: str, tmp_path: Path) -> None:
    _, (process,) = said(python, tmp_path, r"import _aiflame; _aiflame.append('counters', 0, 'a\udc80', b'\xff', 0, 0); print(0)")
    assert process.table("counters").select("name", "domain").rows() == [("a\\udc80", "�")]


def test_regions(python: str, tmp_path: Path) -> None:
    rows, (process,) = said(
        python,
        tmp_path,
        """
        import _aiflame
        outer = _aiflame.push("outer", domain="d", category="c", color=0xFF00FF00)
        inner = _aiflame.push("inner", "d")
        free = _aiflame.begin("optimizer", "aiflame", 4, 2, 0x7F0000001000)
        signed = _aiflame.begin("signed", payload=-3)
        real = _aiflame.begin("real", payload=0.5)
        _aiflame.end(free)
        print(json.dumps([outer, inner, free, signed, real, _aiflame.pop("d"), _aiflame.pop(domain="d")]))
        """,
    )
    outer, inner, free, signed, real, first, second = rows
    assert (first, second) == (inner, outer)
    regions = {row["id"]: row for row in process.table("regions").iter_rows(named=True)}
    assert [(regions[row]["name"], regions[row]["domain"]) for row in (outer, inner, free)] == [
        ("outer", "d"), ("inner", "d"), ("optimizer", "aiflame"),
    ]  # fmt: skip
    assert (regions[outer]["api"], regions[outer]["kind"]) == (RegionApi.AIFLAME, RegionKind.NESTED)
    assert (regions[outer]["category"], regions[outer]["color"]) == ("c", 0xFF00FF00)
    assert (regions[free]["api"], regions[free]["kind"]) == (RegionApi.AUTOMATIC, RegionKind.FREE)
    assert [(regions[row]["payload_type"], regions[row]["payload"]) for row in (inner, free, signed, real)] == [
        (PayloadType.NONE, 0),
        (PayloadType.UNSIGNED, 0x7F0000001000),
        (PayloadType.SIGNED, 2**64 - 3),
        (PayloadType.FLOAT, 0x3FE0000000000000),
    ]
    assert process.table("region_ends")["region"].to_list() == [free, inner, outer]


def test_names_of_layers_belong_to_objects(python: str, tmp_path: Path) -> None:
    addresses, (process,) = said(
        python,
        tmp_path,
        """
        import _aiflame
        class Block: pass
        class Model: pass
        model, block = Model(), Block()
        _aiflame.name_layer(id(block), id(model), "layers.0", "app.Block")
        _aiflame.name_layer(id(block), id(model), "layers.1", "app.Block")
        _aiflame.name_layer(id(model), id(model), "", "app.Model")
        _aiflame.forget_layer(id(block))
        _aiflame.name_layer(id(block), id(model), "layers.0", "app.Block")
        print(json.dumps([id(model), id(block)]))
        """,
    )
    model, block = addresses
    layers = {row["id"]: (row["address"], row["type"]) for row in process.table("layers").iter_rows(named=True)}
    assert sorted(layers.values()) == sorted([(model, "Model"), (block, "Block"), (block, "Block")])
    names = process.table("layer_names")
    assert [(layers[row["layer"]][0], layers[row["root"]][0], row["path"], row["type"]) for row in names.iter_rows(named=True)] == [
        (block, model, "layers.0", "app.Block"),
        (block, model, "layers.1", "app.Block"),
        (model, model, "", "app.Model"),
        (block, model, "layers.0", "app.Block"),
    ]
    assert names["layer"][0] == names["layer"][1] != names["layer"][3]


def test_an_object_outside_of_models_is_no_layer(python: str, tmp_path: Path) -> None:
    rows, (process,) = said(
        python, tmp_path, "import _aiflame; print(json.dumps([_aiflame.name_layer(a, a, '', '') for a in (0, 7, 1 << 46)]))"
    )
    assert rows == [0, 0, 0]
    assert process.table("layers").is_empty()
