"""Lease on a lake in a bucket, which has no locks: the process that holds the lease renews it by rewriting a
file.

A lease only saves wasted work; put-if-absent of commits excludes a second writer. Clocks of machines are not
compared: each waiting process measures how long the file has not changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from stitch.lake.layout import own_stage
from stitch.lake.store import Store

BEATS: Final = 6
"""Number of renewals within the time after which another process takes over; all but one may fail."""


class Lease:
    """Lease under one name in the store, as seen by one process."""

    def __init__(
        self,
        store: Store,
        name: str,
        owner: str,
        lasts_s: float,
        counter: Callable[[], float] = time.monotonic,
    ) -> None:
        """lasts_s: time without renewal after which another process takes over, s. counter: function that
        returns monotonic seconds."""
        self._store, self._name, self._owner = store, name, owner
        self._lasts_s, self._counter = lasts_s, counter
        self._seen = b""
        self._since_s = counter()
        self._ended = threading.Event()
        self._beat = 0
        self.holder_lives = False
        """True if another holder renewed the lease between the last two reads."""
        self.is_lost = False
        """True if another process took the lease from this one."""

    def take(self) -> bool:
        """Take the lease if it is free or its holder has stopped renewing it; return True if this process
        holds it. One read. Raises OSError."""
        found, now_s = self._read(), self._counter()
        if found and not self._is_ours(found):
            if found != self._seen:
                self.holder_lives = bool(self._seen)
                self._seen, self._since_s = found, now_s
            if now_s - self._since_s < self._lasts_s:
                return False
        try:
            self._write(is_new=not found)
        except FileExistsError:  # another was first
            return False
        self.is_lost, self.holder_lives, self._seen = False, False, b""
        return True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Context manager that renews the lease, and releases it at the end."""
        self._ended.clear()
        beating = threading.Thread(target=self._keep, name="lease", daemon=True)
        beating.start()
        try:
            yield
        finally:
            self._ended.set()
            beating.join()
            with suppress(OSError):  # others wait a little longer, then
                if self._is_ours(self._read()):
                    self._store.remove(self._name)

    def _keep(self) -> None:
        while not self._ended.wait(self._lasts_s / BEATS):
            with suppress(OSError):  # the next one may arrive; if none does, another process takes over
                if not self._is_ours(self._read()):
                    self.is_lost = True
                    return
                self._write(is_new=False)

    def _is_ours(self, found: bytes) -> bool:
        return found.partition(b" ")[0] == self._owner.encode()

    def _read(self) -> bytes:
        try:
            return bytes(self._store.read(self._name))
        except FileNotFoundError:
            return b""

    def _write(self, *, is_new: bool) -> None:
        self._beat += 1
        put = self._store.put_if_absent if is_new else self._store.replace
        with own_stage(self._store, "lease") as stage:
            put(self._name, f"{self._owner} {self._beat}\n".encode(), stage)
