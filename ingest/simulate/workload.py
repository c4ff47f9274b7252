"""Hold a workload: the requests of one run as columns, and who issues them when."""

from __future__ import annotations

from dataclasses import dataclass, fields

from schemas.arrays import B1, F8, I8

BLOCK_BYTES = 16 * 1024
"""The NFS server's preferred I/O size, and its cache's block."""
SUB_BITS = 6
"""A request's uid is `index << 6 | part`: every run has part 0, the others exist under a fault only."""
REVALIDATION = (1 << SUB_BITS) - 1
"""Part number of a GETATTR that a client adds after a pause (F6)."""


@dataclass(frozen=True, slots=True)
class Requests:
    """[n] columns, in the order in which the clients issue them."""

    uid: I8
    """`index << SUB_BITS | part`; unique over all shards of a run, the same with and without a fault."""
    op: I8
    """Index into OPERATIONS."""
    file: I8
    offset: I8
    """Bytes."""
    count: I8
    """Bytes of a READ, WRITE or READLINK; entries of a READDIR."""
    stable: B1
    """WRITE: the client waits until the data is on a storage node."""
    grows: B1
    """WRITE: the file becomes longer, so the metadata server must know."""
    sequential: B1
    """READ: the next block will be wanted."""
    client: I8
    gap_ns: F8
    """Open workloads: time since the arrival before (any client). Closed: think time before issuing."""

    def take(self, rows: I8) -> Requests:
        """The rows named, in that order."""
        return Requests(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def __len__(self) -> int:
        return len(self.uid)


@dataclass(frozen=True, slots=True)
class Load:
    """The requests of one shard, and what its caches have seen before."""

    requests: Requests
    open_loop: bool
    clients: int
    warm_files: I8
    """Files touched before the run, oldest first."""
    warm_blocks: I8
    """Data blocks of each of them (0: none) that were read then."""
    n_creates: int
