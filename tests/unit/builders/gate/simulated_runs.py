"""Runs of a made program with normal noise between runs: measurements alone, without profiles."""

from __future__ import annotations

import numpy as np

from aiflame.analyze.gate.code import Code
from aiflame.analyze.gate.machine import Machine
from aiflame.analyze.gate.noise import blocks
from aiflame.analyze.gate.run import WHOLE, Measured, Run
from aiflame.profile.folder.meta import Meta

MS = 1e6
SLOW = "kernel 0"


def simulated(chance: np.random.Generator, noise: float, slower: float = 0.0, steps: int = 0) -> Run:
    """Ten kernels, layers and lines, in which kernel, layer and line 0 take a third of the time, and are `slower` by a share. Half of the
    variance is common to all parts of a run. With steps, each step has as much noise of its own."""
    sizes = {("elapsed", WHOLE): 1000.0, ("cpu", WHOLE): 400.0, ("gpu", WHOLE): 300.0, ("gpu-idle", WHOLE): 100.0}
    sizes |= {("step", WHOLE): 10.0} if steps else {}
    for metric in ("kernel", "layer", "line"):
        sizes |= {(metric, f"{metric} {number}"): 300 * (2 / 3 / 9 if number else 1 / 3) for number in range(10)}
    common, noises = chance.normal(), chance.normal(size=(len(sizes), 1 + steps))
    own = (1 + noise * (common + noises[:, 0]) / np.sqrt(2)).tolist()
    values = {}
    for (key, size), factor, of_steps in zip(sizes.items(), own, noises[:, 1:], strict=True):
        mean = size * MS * (1 + slower * key[1].endswith(" 0")) * factor
        if steps and key[0] != "elapsed":
            each = mean * (1 + noise * of_steps)
            values[key] = Measured(max(mean, 1.0), float(each.mean()), blocks(each, median=False))
        else:
            values[key] = Measured(max(mean, 1.0))
    return Run("run", "gpu-time", steps, values, {}, {}, Machine({}, {}), Code({}, {}, {}), Meta())
