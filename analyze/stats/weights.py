"""What weighted requests are worth: one that was kept out of four stands for four, and shows as much as one
(ALGORITHMS A.7).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F8 = npt.NDArray[np.float64]


def in_requests(weight: F8, square: F8) -> F8:
    """Requests that a unit of weight is worth, by sums of weights and of their squares, of one shape (Kish).

    n weights of a sum W are worth W²/Σw² equal requests, so each unit Σw/Σw²; 1 where there are none.
    """
    found: F8 = np.where(square > 0, weight / np.where(square > 0, square, 1.0), 1.0)
    return found
