"""The file of `aiflame doctor --hardware-report`: how well aiflame records the GPUs of this machine, for people who have no such GPU.

It names no host, no user and no path, and has no source: texts of other programs are cleaned of them, and of a recorded program there are
counts alone.
"""

from __future__ import annotations

import getpass
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiflame
from aiflame.analyze.device.hardware_facts import hardware_facts
from aiflame.cli.demo import DemoDevice, clean_environment, options_for, refusal
from aiflame.errors import AiflameError
from aiflame.recorder.finding import Finding
from aiflame.recorder.hardware import drivers, gpus, libraries, system
from aiflame.version import VERSION

SCHEMA = "aiflame.hardware/1"
_PATH = re.compile(r"(?<![\w.])~?(?:/[^\s/:,;'\"()<>\[\]]+)+/?")
_STEPS = re.compile(r"(\d+) steps? on (.+): each multiplied")
_OUT_OF_TIME_S = 300.0


def hardware_report(
    checks: Sequence[Finding], profiles: Sequence[aiflame.Profile], seconds: float, tell: Callable[[str], None]
) -> dict[str, Any]:
    """`profiles`: recordings of other programs on this machine, whose counts are added."""
    measured = []
    for device in DemoDevice:
        tell(f"Measuring the demo on {device.value} ...")
        measured.append({"device": device.value, **_measured(device, seconds)})
    measured += [{"device": "a recorded program", "recorded": hardware_facts(profile.store)} for profile in profiles]
    facts = {
        "schema": SCHEMA,
        "aiflame": VERSION,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "system": system(),
        "gpus": gpus(),
        "drivers": drivers(),
        "libraries": libraries(),
        "checks": [asdict(check) for check in checks],
        "measured": measured,
    }
    return dict(without_names(facts, _names()))


def without_names(value: Any, names: Sequence[str]) -> Any:
    """The document, where each path in a text is its last part, and each of `names` is gone."""
    if isinstance(value, dict):
        return {key: without_names(part, names) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_names(part, names) for part in value]
    if not isinstance(value, str):
        return value
    text = _PATH.sub(lambda path: path[0].rstrip("/").rpartition("/")[2], value)
    for name in names:
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "NAME", text)
    return text


def _names() -> list[str]:
    """Of this host and this user; not those that are words of every report."""
    return [name for name in dict.fromkeys([*_host(), *_user()]) if len(name) > 1 and name not in ("localhost", "root")]


def _host() -> Iterator[str]:
    name = socket.gethostname()
    yield name
    yield name.partition(".")[0]


def _user() -> Iterator[str]:
    try:
        yield getpass.getuser()
    except (KeyError, OSError):
        return
    yield Path.home().name


def _measured(device: DemoDevice, seconds: float) -> dict[str, Any]:
    """The demo alone and recorded, or the reason why it cannot run there."""
    if device is not DemoDevice.CPU and (reason := refusal(device)):
        return {"refused": reason}
    trace = ["--trace", options_for(device).trace]
    demo = ["-m", "aiflame.demo.matmul", "--device", device.value, "--seconds", str(seconds)]
    with clean_environment(), tempfile.TemporaryDirectory(prefix="aiflame-hardware-") as folder:
        path = Path(folder) / "demo.aiflame"
        try:
            alone = _steps(demo)
            recorded = _steps(["-m", "aiflame.cli.main", "record", "-q", "--no-seal", "-o", str(path), *trace, "--", sys.executable, *demo])
            profile = aiflame.open(path)
            return {
                "device_name": alone[1],
                "steps_alone": alone[0],
                "steps_recorded": recorded[0],
                "seconds": seconds,
                "recorded": hardware_facts(profile.store),
                "notes": profile.store.notes(),
            }
        except (AiflameError, OSError, subprocess.SubprocessError) as error:
            return {"refused": str(error)}


def _steps(arguments: Sequence[str]) -> tuple[int, str]:
    """The number of steps that the demo made, and on which device. A driver may hang."""
    child = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=_OUT_OF_TIME_S, check=False)
    steps = _STEPS.search(child.stdout)
    if child.returncode or steps is None:
        said = child.stderr.strip().splitlines()
        raise AiflameError(said[-1] if said else f"the demo ended with status {child.returncode}")
    return int(steps[1]), steps[2]
