"""A fault while the simulation runs: the mechanism, how hard, from when, and as which cause it is booked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Mechanism(Enum):
    """What a fault changes in the service, the workload or the trace. One of each kind a run at most."""

    MDS_CONFIG = "metadata writes go to the data node"
    SMALL_IO = "the client uses smaller I/O"
    PREFETCH = "server-driven metadata prefetching"
    TREE_GROWTH = "B-tree inserts take more iterations as it grows"
    SPIN = "spin in the storage node's write path"
    PAUSES = "the client machine pauses"
    ONE_BUCKET = "hash table with one bucket"
    READDIR_LOOP = "READDIR starts over for every entry"
    WRITE_THROUGH = "one storage node writes through"
    STALE_BACKOFF = "back-off on a stale location"
    NOISY_HOST = "noisy neighbour on the data node"
    LOAD = "more load"
    ERROR_BURST = "bursts of I/O errors with retries"
    SEQUENTIAL_READ = "parallel reads become sequential"
    SAMPLING = "other sampling rate"
    CLOCK_SKEW = "a host's clock is off"
    SPAN_LOSS = "records are lost"
    RENAME = "a deploy renames a label"


@dataclass(frozen=True, slots=True)
class Injection:
    """One mechanism at work from `start_ns` (of the run) on; `cause` numbers the fault it belongs to."""

    mechanism: Mechanism
    severity: float
    start_ns: float
    cause: int
    mode: str = ""


Injections = Mapping[Mechanism, Injection]
