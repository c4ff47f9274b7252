"""Which of several processes builds the windows of a lake: settled to save work, as put-if-absent decides
whatever is settled.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

from schemas.errors import BusyLakeError
from stitch.lake.disk import exclusive_lock
from stitch.lake.lease import Lease
from stitch.lake.place import local_path
from stitch.lake.store import Store

LOCK: Final = "build-lock"
LEASE: Final = "control/build-lease"
LEASE_S: Final = 6.0
"""Time without a sign of life after which another process builds."""


class Election(Protocol):
    """Who of several processes builds."""

    patience_s: float
    """Time after which a process that built and is gone has been found out."""

    def take(self, held: ExitStack) -> bool:
        """True if it is us, until `held` is closed. Raises OSError."""
        ...


class NoElection:
    """Everybody builds: put-if-absent decides."""

    patience_s = 0.0

    def take(self, held: ExitStack) -> bool:
        """See Election."""
        del held
        return True


class LockElection:
    """Whoever holds a lock of the folder builds; the lock goes with its process."""

    patience_s = 0.0

    def __init__(self, root: Path) -> None:
        self._root = root

    def take(self, held: ExitStack) -> bool:
        """See Election."""
        try:
            held.enter_context(exclusive_lock(self._root, LOCK))
        except BusyLakeError:
            return False
        return True


class LeaseElection:
    """Whoever renews a lease in the bucket builds. One that lost it goes on until another one commits."""

    patience_s = 1.5 * LEASE_S

    def __init__(self, store: Store, owner: str) -> None:
        self._lease = Lease(store, LEASE, owner, LEASE_S)

    def take(self, held: ExitStack) -> bool:
        """See Election."""
        if not self._lease.take():
            return False
        held.enter_context(self._lease.held())
        return True


def election(store: Store, lake: str, owner: str) -> Election:
    """Election among the processes of a lake, by its name."""
    folder = local_path(lake)
    return LeaseElection(store, owner) if folder is None else LockElection(folder)
