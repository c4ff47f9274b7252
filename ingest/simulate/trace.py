"""What a run leaves behind: the sampled requests as columns, and their structures, each once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]

STRAND_BREAK = -1
"""In a raw structure: the next strand's steps follow."""

RawStructure = tuple[int, ...]
"""Steps of strand 0, STRAND_BREAK, steps of strand 1, … (see `flow.COUNT_SHIFT` for a step)."""


@dataclass(frozen=True, slots=True)
class Touches:
    """What faults did, one row a touch: [touches] columns."""

    request: I8
    """Row in the trace."""
    cause: I8
    step: I8
    """Position in the request's flat list of steps."""
    added_ns: F8
    """Work the fault added on the edge into this step; 0 where it acts in another way."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The sampled requests of one shard, in order of completion."""

    shard: int
    uid: I8
    structure: I8
    """[requests] index into `structures`."""
    first_step: I8
    """[requests + 1] offsets into `time_ns`."""
    time_ns: I8
    """[steps] since the start of the run; the order of steps is that of the raw structure."""
    response_ns: I8
    op: I8
    file: I8
    offset: I8
    count: I8
    client: I8
    structures: tuple[RawStructure, ...]
    touches: Touches
    n_simulated: int
    end_ns: float
    """Time of the last completion, since the start of the run."""

    def __len__(self) -> int:
        return len(self.uid)
