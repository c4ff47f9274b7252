"""Storage node: block cache, write log, one FIFO disk, de-staging in the background."""

from __future__ import annotations

from simulator.engine import Lru, Process, Server, Strand
from simulator.faults import FaultMechanism, Injections, injected
from simulator.points import DATA_HOST, CallerPoints, NodePoints
from simulator.streams import Stream

MAX_RETRIES = 3
"""Maximum number of failed attempts of one storage call; the next attempt succeeds, so that a request stays
bounded."""
DESTAGE_BATCH, DESTAGE_BATCH_META = 8, 32
"""Numbers of logged blocks that one disk sweep writes: (data node, metadata node).

The metadata node writes more, as its preallocated file is contiguous.
"""
BURST_NS, BURST_EVERY_NS = 10e9, 30e9
"""Fault `F13-error-burst`: (length of a burst of errors, interval between the starts of bursts), ns."""
ABSORBED_SHARE = 0.7
"""Fault `F5-spin-absorbed`: share of spins, in [0, 1], that overlap the wait for the log device."""


class StorageNode:
    """Storage node that reads and writes blocks for the NFS server and the metadata server."""

    def __init__(
        self,
        host: str,
        points: NodePoints,
        cache_blocks: int,
        streams: dict[str, Stream],
        injections: Injections,
    ) -> None:
        self.cache = Lru(cache_blocks)
        self._points = points
        self._disk = Server()
        self._logged = 0
        self._batch = DESTAGE_BATCH if host == DATA_HOST else DESTAGE_BATCH_META
        station = "data" if host == DATA_HOST else "meta"
        self._net = streams["net"]
        self._dispatch = streams[f"{station}_dispatch"]
        self._hit, self._miss = streams[f"{station}_hit"], streams[f"{station}_miss"]
        self._device, self._destage = streams[f"{station}_disk"], streams[f"{station}_destage"]
        self._log, self._ack = streams[f"{station}_log"], streams[f"{station}_ack"]
        self._backoff, self._chance = streams["retry_backoff"], streams["u_storage"]
        self._absorbs = streams["u_absorb"]
        self._errors = injected(injections, FaultMechanism.ERROR_BURST)
        self._spin = injected(injections, FaultMechanism.SPIN)
        here = injections if host == DATA_HOST else {}
        self._through = injected(here, FaultMechanism.WRITE_THROUGH)
        self._noisy = injected(here, FaultMechanism.NOISY_HOST)

    def read(self, s: Strand, block: int, caller: CallerPoints) -> Process:
        """Read one block: from the cache, or from the disk after its queue."""
        points = self._points
        errors = points.read_error, caller.read_error, caller.retry
        yield from self._arrive(s, caller.read_call, points.read, errors)
        s.work(self._dispatch, points.dispatch)
        if self.cache.touch(block):
            s.work(self._hit, points.hit)
        else:
            s.work(self._miss, points.miss)
            yield s.t
            s.t = self._disk.serve(s.t, s.draw(self._device))
            s.mark(points.disk)
        s.work(self._ack, points.read_reply)
        s.t += s.draw(self._net)
        s.mark(caller.read_reply)

    def write(self, s: Strand, block: int, caller: CallerPoints, allocates: bool = False) -> Process:
        """Log one block (the caller waits for the log); the disk itself is written later, by de-staging.

        allocates: True if the block is not preallocated, so that space on the disk must be found before the
        reply.
        """
        points = self._points
        errors = points.write_error, caller.write_error, caller.retry
        yield from self._arrive(s, caller.write_call, points.write, errors)
        self.cache.touch(block)
        self._logged += 1
        if self._logged == self._batch:
            self._logged = 0
            self._disk.serve(s.t, s.draw(self._destage))
        s.work(self._dispatch, points.dispatch)
        logged_ns = s.draw(self._log)
        s.t += logged_ns
        if allocates:
            yield s.t
            s.t = self._disk.serve(s.t, s.draw(self._device))
        if self._through.acts(s.t):
            yield s.t
            before = s.t
            s.t = self._disk.serve(s.t, s.draw(self._device) * self._through.severity)
            s.touch(self._through.cause, s.t - before)
        s.mark(points.logged)
        s.t += s.draw(self._ack)
        if self._spin.acts(s.t):
            self._spin_before_reply(s, logged_ns)
        s.mark(points.write_reply)
        s.t += s.draw(self._net)
        s.mark(caller.write_reply)

    def _arrive(self, s: Strand, call: int, arrived: int, errors: tuple[int, int, int]) -> Process:
        """Send a call until it succeeds.

        call, arrived: points of the sending and of the arrival at this node; errors: points of the refusal at
        this node, of its arrival at the caller, and of the retry.
        """
        for attempt in range(MAX_RETRIES + 1):
            s.mark(call)
            s.t += s.draw(self._net)
            yield s.t
            s.mark(arrived)
            if self._noisy.acts(s.t):  # the slow-down itself is in the station's weather
                s.touch(self._noisy.cause, 0.0)
            if attempt == MAX_RETRIES or not self._fails(s):
                return
            s.work(self._miss, errors[0])
            s.t += s.draw(self._net)
            s.mark(errors[1])
            s.work(self._backoff, errors[2])

    def _spin_before_reply(self, s: Strand, logged_ns: float) -> None:
        spin = self._spin
        added = spin.severity * 1e3
        if spin.mode == "absorbed" and s.draw(self._absorbs) < ABSORBED_SHARE:
            added = max(0.0, added - logged_ns)
        if added > 0.0:
            s.touch(spin.cause, added)
            s.t += added

    def _fails(self, s: Strand) -> bool:
        errors = self._errors
        if not errors.acts(s.t):
            return False
        failed = s.draw(self._chance) < errors.severity
        if not failed or (s.t - errors.start_ns) % BURST_EVERY_NS >= BURST_NS:
            return False
        s.touch(errors.cause, 0.0)
        return True
