"""Elect the one process that builds the windows of a lake.

The election only saves work: two builders at once do no harm, as put-if-absent lets one of their commits win.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

from schemas.errors import BusyLakeError
from schemas.windows import NS_PER_SECOND
from stitch.lake.disk import exclusive_lock
from stitch.lake.lease import Lease
from stitch.lake.place import local_path
from stitch.lake.store import Store

LOCK: Final = "build-lock"
LEASE: Final = "control/build-lease"


class Election(Protocol):
    """Election of the process that builds the windows of a lake."""

    patience_s: float
    """Time, s, after which the death of an elected process is certain to be noticed: its lock or lease is
    free by then."""

    def take(self, held: ExitStack) -> bool:
        """Try to become the builder. Return True if elected, which lasts until `held` is closed or the lease
        expires. Raises OSError."""
        ...


LOOK_S: Final = 0.2
"""Interval, s, at which `tries` yields."""


def tries(election: Election) -> Iterator[None]:
    """Yield once, then every LOOK_S until `patience_s` of the election has passed.

    A caller that tries at each of these times knows at the end that the elected process lives.
    """
    until_s = time.monotonic() + election.patience_s
    yield
    while time.monotonic() < until_s:
        time.sleep(LOOK_S)
        yield


class NoElection:
    """Election that every process wins: put-if-absent decides which commits stand."""

    patience_s = 0.0

    def take(self, held: ExitStack) -> bool:
        """Return True: every process is elected."""
        del held
        return True


class LockElection:
    """Election by an exclusive lock on a file in the lake's folder; the lock ends when its process does."""

    patience_s = 0.0

    def __init__(self, root: Path) -> None:
        self._root = root

    def take(self, held: ExitStack) -> bool:
        """Try to lock the folder, until `held` is closed. Return False if another process holds the lock.
        Raises OSError."""
        try:
            held.enter_context(exclusive_lock(self._root, LOCK))
        except BusyLakeError:
            return False
        return True


class LeaseElection:
    """Election by a lease in the bucket. A builder whose lease expired goes on until another process commits
    as builder."""

    def __init__(self, store: Store, owner: str, lease_ns: int) -> None:
        """lease_ns: time without renewal after which another process may take the lease, ns."""
        lease_s = lease_ns / NS_PER_SECOND
        self.patience_s = 1.5 * lease_s
        self._lease = Lease(store, LEASE, owner, lease_s)

    def take(self, held: ExitStack) -> bool:
        """Try to take the lease, and renew it until `held` is closed. Return False if another process holds
        it. Raises OSError."""
        if not self._lease.take():
            return False
        held.enter_context(self._lease.held())
        return True


def election(store: Store, lake: str, owner: str, lease_ns: int) -> Election:
    """Return the election for the lake named `lake`: by lock if the lake is a folder, by lease if it is in a
    bucket.

    owner: unique name of this process. lease_ns: duration of the lease, ns (`live.build_lease`).
    """
    folder = local_path(lake)
    return LeaseElection(store, owner, lease_ns) if folder is None else LockElection(folder)
