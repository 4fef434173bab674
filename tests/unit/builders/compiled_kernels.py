"""Calls of compiled kernels, with the ops that they were fused from."""

from __future__ import annotations

import json
from typing import Any

from profiles import Row

GENERATED = "/tmp/torchinductor_me/ab/cabc.py"


def op(name: str, layer: str = "", share: int = 1, **more: Any) -> dict[str, Any]:
    return {"op": name, "layer": layer, "outer": layer.split(".")[0], "file": "model.py", "line": 10, "bytes": share, **more}


def call(kernel: str, line: int, *ops: dict[str, Any], library: str = "", process: int = 0) -> Row:
    origin = {"line": line, "library": library, "backward": False, "ops": list(ops)}
    names = {"kernel": kernel, "compiler": "inductor", "module": "0/0 forward", "file": GENERATED}
    return {"process": process, **names, "origins": json.dumps(origin)}


ADD, NORM, GELU = op("aten::add", "layers.2", 30), op("aten::native_layer_norm", "layers.3.norm", 10), op("aten::gelu", "layers.3", 8)
