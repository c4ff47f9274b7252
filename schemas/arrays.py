"""Aliases of numpy array types: kind of number and bytes per number (`I8` int64, `F8` float64, `B1` bool)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

B1 = npt.NDArray[np.bool_]
I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
U1 = npt.NDArray[np.uint8]
U4 = npt.NDArray[np.uint32]
U8 = npt.NDArray[np.uint64]
F8 = npt.NDArray[np.float64]
I1 = npt.NDArray[np.int8]
I2 = npt.NDArray[np.int16]
F4 = npt.NDArray[np.float32]
