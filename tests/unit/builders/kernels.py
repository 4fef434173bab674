"""A real Jupyter kernel that can import this checkout's aiflame."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[3] / "src"
_COLOR = re.compile(r"\x1b\[[\d;]*m")


@dataclass
class Outputs:
    """The outputs of one cell."""

    stdout: str = ""
    stderr: str = ""
    values: list[dict[str, str]] = field(default_factory=list)
    """For each value and picture: MIME type → data."""
    error: tuple[str, str, str] | None = None
    """Class, message, and traceback without colours."""
    status: str = ""


@dataclass
class Kernel:
    manager: Any
    client: Any

    def run(self, cell: str, interrupt_at: str = "") -> Outputs:
        """`interrupt_at`: a printed text at which the cell is interrupted."""
        asked = self.client.execute(cell)
        outputs = Outputs()
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != asked:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                setattr(outputs, content["name"], getattr(outputs, content["name"]) + content["text"])
                if interrupt_at and interrupt_at in content["text"]:
                    self.manager.interrupt_kernel()
            elif kind in ("execute_result", "display_data"):
                outputs.values.append(content["data"])
            elif kind == "error":
                outputs.error = (content["ename"], content["evalue"], _COLOR.sub("", "\n".join(content["traceback"])))
            elif kind == "status" and content["execution_state"] == "idle":
                outputs.status = self._reply(asked)["status"]
                return outputs

    def _reply(self, asked: str) -> dict[str, str]:
        """Answers to other questions are left from the kernel's start: until it answers, it is asked once a second whether it is there."""
        while True:
            message = self.client.get_shell_msg(timeout=60)
            if message["parent_header"].get("msg_id") == asked:
                content: dict[str, str] = message["content"]
                return content


@contextmanager
def kernel(folder: Path, **variables: str) -> Iterator[Kernel]:
    """Its working directory is the folder."""
    from jupyter_client.manager import start_new_kernel

    home = folder / "home"
    home.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "IPYTHONDIR": str(home), **variables}
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(folder), env=environment, startup_timeout=60)
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
