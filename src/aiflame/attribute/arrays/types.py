"""Types of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Whole = NDArray[np.integer[Any]]
"""Whole numbers of any size."""
U32 = NDArray[np.uint32]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
