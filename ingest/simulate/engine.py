"""Turn the event loop, and queue requests at what they contend for: FIFO servers and locks.

A process is a generator. It yields the simulated time (ns) at which it wants to go on, or None to sleep
until somebody wakes it; in between it may add pure delays to its own clock. The rule that keeps the
simulation exact: **yield your clock before you touch anything shared**, so that shared state is touched in
global time order.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Generator
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

Process = Generator["float | None", None, None]


class Loop:
    """Runs processes in order of (time, order of scheduling)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Process]] = []
        self._scheduled = 0
        self.current: Process | None = None
        """The process that runs now: what puts itself to sleep registers this one to be woken."""

    def start(self, at_ns: float, process: Process) -> None:
        """Schedule (or wake) a process; `at_ns` must not lie in the past of the caller."""
        self._scheduled += 1
        heappush(self._heap, (at_ns, self._scheduled, process))

    def run(self) -> None:
        """Run until nothing is scheduled."""
        heap = self._heap
        while heap:
            _, _, process = heappop(heap)
            self.current = process
            while True:
                wake = next(process, None)
                if wake is None:  # ended, or asleep
                    break
                if heap and heap[0][0] <= wake:
                    self._scheduled += 1
                    heappush(heap, (wake, self._scheduled, process))
                    break


class Server:
    """A FIFO single server: work begins when the server is free, in order of arrival."""

    __slots__ = ("free_ns",)

    def __init__(self) -> None:
        self.free_ns = 0.0

    def serve(self, at_ns: float, service_ns: float) -> float:
        """End of a job that arrives now and needs `service_ns`."""
        start = self.free_ns if self.free_ns > at_ns else at_ns
        self.free_ns = start + service_ns
        return self.free_ns


class Lock:
    """A mutex with FIFO hand-over. `in_io`: the holder waits for a device, so spinning would be pointless."""

    __slots__ = ("granted_ns", "held", "in_io", "waiters")

    def __init__(self) -> None:
        self.held = False
        self.in_io = False
        self.granted_ns = 0.0
        self.waiters: deque[Process] = deque()

    def release(self, at_ns: float, loop: Loop) -> None:
        """Give the lock to the longest waiter, or free it."""
        self.in_io = False
        if self.waiters:
            self.granted_ns = at_ns
            loop.start(at_ns, self.waiters.popleft())
        else:
            self.held = False


class Gather:
    """Wakes a sleeping process when `left` others are done."""

    __slots__ = ("left", "loop", "sleeper")

    def __init__(self, loop: Loop, left: int) -> None:
        self.loop, self.left = loop, left
        self.sleeper: Process | None = None

    def wait(self) -> Process:
        """Sleep until all are done (the last one wakes the sleeper at its own time)."""
        if self.left:
            self.sleeper = self.loop.current
            yield None

    def done(self, at_ns: float) -> None:
        """One of the awaited processes has ended."""
        self.left -= 1
        if self.left == 0 and self.sleeper is not None:
            self.loop.start(at_ns, self.sleeper)


class Lru:
    """Least-recently-used set of integers."""

    __slots__ = ("_capacity", "_entries")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[int, None] = OrderedDict()

    def touch(self, key: int) -> bool:
        """True if the key was present; either way it is present and newest afterwards."""
        entries = self._entries
        if key in entries:
            entries.move_to_end(key)
            return True
        entries[key] = None
        if len(entries) > self._capacity:
            entries.popitem(last=False)
        return False

    def fill(self, keys: npt.NDArray[np.int64]) -> None:
        """Touch many keys, oldest first (the cache must be empty): what is left is the newest ones."""
        _, newest_first = np.unique(keys[::-1], return_index=True)
        newest = keys[::-1][np.sort(newest_first)[: self._capacity]]
        self._entries = OrderedDict.fromkeys(newest[::-1].tolist())

    def drop(self, key: int) -> None:
        """Forget the key, if present."""
        self._entries.pop(key, None)

    def __len__(self) -> int:
        return len(self._entries)
