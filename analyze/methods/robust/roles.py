"""Which slots of a profile are held against each other, and which tell what the system does on its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

B1 = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Roles:
    """Slots by their part in a comparison; arrays are [slots]."""

    reference: B1
    """Ordinary times that the problem is held against."""
    problem: B1
    noise: npt.NDArray[np.int64]
    """Block or window of ordinary times that a slot belongs to; -1 for none."""
    cold: bool
    """The blocks are of one short stretch: they tell less than there is."""

    @property
    def n_noise(self) -> int:
        """Number of blocks."""
        return int(self.noise.max(initial=-1)) + 1
