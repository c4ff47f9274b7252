"""What weighted requests are worth: one that was kept out of four stands for four, and shows as much as one
(ALGORITHMS A.7).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schemas.arrays import F8


def in_requests(weight: F8, square: F8) -> F8:
    """Requests that a unit of weight is worth, by sums of weights and of their squares, of one shape (Kish).

    n weights of a sum W are worth W²/Σw² equal requests, so each unit Σw/Σw²; 1 where there are none.
    """
    found: F8 = np.where(square > 0, weight / np.where(square > 0, square, 1.0), 1.0)
    return found


def as_requests(weight: F8, group: npt.NDArray[np.integer], n_groups: int) -> F8:
    """[n] weights scaled so that those of a group sum to the requests that they are worth; 1 of equal ones.

    weight, group: [n]; group in 0..n_groups-1.
    """
    total = np.bincount(group, weight, n_groups).astype(np.float64)
    squares = np.bincount(group, weight**2, n_groups).astype(np.float64)
    scaled: F8 = weight * in_requests(total, squares)[group]
    return scaled
