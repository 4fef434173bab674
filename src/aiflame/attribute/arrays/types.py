"""Types of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
U32 = NDArray[np.uint32]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
