"""Discrete-event simulation: event loop, queues at servers and locks, and a record of the steps of each
strand.

A process is a generator. It yields the simulated time (ns) at which it continues, or None to sleep until
another process wakes it; in between it may add pure delays to its own clock. The rule that keeps the
simulation exact: **yield your clock before you access anything shared**, so that shared state is accessed in
global time order.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Generator
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from simulator.streams import MASK, Stream, mix_one

CHILD_SHIFT, COUNT_SHIFT = 20, 12
CODE_MASK = (1 << COUNT_SHIFT) - 1
COUNT_MASK = (1 << (CHILD_SHIFT - COUNT_SHIFT)) - 1
"""Mask of the number of strands in a step, which is `code | strands << 12 | first strand << 20`: splits and
joins name consecutive strands.
"""

_KEY_BITS = 30
_KEY_MASK = (1 << _KEY_BITS) - 1


class Strand:
    """Sequential activity of a request, with a clock of its own: `t`, ns since the start of the run."""

    __slots__ = ("a", "b", "codes", "flow", "number", "t", "times", "visits")

    def __init__(self, flow: SimulatedFlow, number: int, key: int, t: float, n_streams: int) -> None:
        self.flow = flow
        self.number = number
        self.a = key & _KEY_MASK
        self.b = (key >> _KEY_BITS) & _KEY_MASK | 1
        self.t = t
        self.codes: list[int] = []
        self.times: list[float] = []
        self.visits = [0] * n_streams

    def draw(self, stream: Stream) -> float:
        """Next draw from a stream, ns; from a uniform stream a number in (0, 1)."""
        number = stream.number
        visit = self.visits[number]
        self.visits[number] = visit + 1
        return stream.mean_ns * stream.table[(self.a + (stream.key + visit) * self.b) & MASK]

    def mark(self, code: int) -> None:
        """Record a trace point at the strand's current time."""
        self.codes.append(code)
        self.times.append(self.t)

    def work(self, stream: Stream, code: int) -> None:
        """Advance the clock by a draw, then record a trace point."""
        number = stream.number
        visit = self.visits[number]
        self.visits[number] = visit + 1
        self.t += stream.mean_ns * stream.table[(self.a + (stream.key + visit) * self.b) & MASK]
        self.codes.append(code)
        self.times.append(self.t)

    def fork(self, code: int, n: int) -> list[Strand]:
        """Split the strand: start `n` new strands at its current time (1 ≤ n ≤ COUNT_MASK); this strand
        continues, too."""
        flow = self.flow
        first = len(flow.strands)
        self.mark(code | n << COUNT_SHIFT | first << CHILD_SHIFT)
        n_streams = len(self.visits)
        salt = mix_one((code << COUNT_SHIFT) + 1) >> 4
        children = [
            # A child's draws depend on what it is for, not on how many strands came before it.
            Strand(flow, first + i, mix_one(self.a ^ self.b << _KEY_BITS ^ salt + i), self.t, n_streams)
            for i in range(n)
        ]
        flow.strands.extend(children)
        return children

    def join(self, code: int, children: list[Strand]) -> None:
        """Merge `children`, strands that have ended; this strand's clock moves to the latest of their
        ends."""
        self.t = max(self.t, max(child.t for child in children))
        self.mark(code | len(children) << COUNT_SHIFT | children[0].number << CHILD_SHIFT)

    def touch(self, cause: int, added_ns: float) -> None:
        """Record that a fault acts on the strand's next step.

        cause: number of the cause; added_ns: work that the fault adds, ns.
        """
        self.flow.touches.append((cause, self.number, len(self.codes), added_ns))


class SimulatedFlow:
    """Simulated request: its row in the workload, its strands, and the effects of faults on it.

    touches: (cause, strand, step, added time in ns) of each effect, only for the truth file; never part of a
    trace.
    """

    __slots__ = ("live", "row", "strands", "touches")

    def __init__(self, row: int) -> None:
        self.row = row
        self.strands: list[Strand] = []
        self.touches: list[tuple[int, int, int, float]] = []
        self.live = 1


Process = Generator["float | None", None, None]


class Loop:
    """Event loop: runs processes in order of (time, order of scheduling)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Process]] = []
        self._scheduled = 0
        self.current: Process | None = None
        """Process that runs at the moment; a lock or barrier stores it before it sleeps, to wake it later."""

    def start(self, at_ns: float, process: Process) -> None:
        """Schedule a process, or wake a sleeping one, at `at_ns`, which must not precede the caller's
        time."""
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
    """Single server with a FIFO queue: work begins when the server is free, in order of arrival."""

    __slots__ = ("free_ns",)

    def __init__(self) -> None:
        self.free_ns = 0.0

    def serve(self, at_ns: float, service_ns: float) -> float:
        """Queue a job that arrives at `at_ns` and needs `service_ns`; returns the time of its end, ns."""
        start = self.free_ns if self.free_ns > at_ns else at_ns
        self.free_ns = start + service_ns
        return self.free_ns


class Lock:
    """Mutex that is handed over in order of arrival. in_io: the holder waits for a device, so spinning is
    pointless.
    """

    __slots__ = ("granted_ns", "held", "in_io", "waiters")

    def __init__(self) -> None:
        self.held = False
        self.in_io = False
        self.granted_ns = 0.0
        self.waiters: deque[Process] = deque()

    def release(self, at_ns: float, loop: Loop) -> None:
        """Hand the lock to the longest waiter, or free it."""
        self.in_io = False
        if self.waiters:
            self.granted_ns = at_ns
            loop.start(at_ns, self.waiters.popleft())
        else:
            self.held = False


class Gather:
    """Barrier: wakes a sleeping process when the `left` processes that it awaits have ended."""

    __slots__ = ("left", "loop", "sleeper")

    def __init__(self, loop: Loop, left: int) -> None:
        self.loop, self.left = loop, left
        self.sleeper: Process | None = None

    def wait(self) -> Process:
        """Sleep until all awaited processes are done; the last one wakes the sleeper, at its own time."""
        if self.left:
            self.sleeper = self.loop.current
            yield None

    def done(self, at_ns: float) -> None:
        """Record that one of the awaited processes has ended, at `at_ns`; the last one wakes the sleeper."""
        self.left -= 1
        if self.left == 0 and self.sleeper is not None:
            self.loop.start(at_ns, self.sleeper)


def newest_first(keys: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """Distinct keys, at most `most`, the most recently used first. keys: in order of use."""
    _, places = np.unique(keys[::-1], return_index=True)
    return keys[::-1][np.sort(places)[:most]]


class Lru:
    """Set of integers with a capacity; adding to a full set removes the least recently used one."""

    __slots__ = ("_entries", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._entries: OrderedDict[int, None] = OrderedDict()

    def touch(self, key: int) -> bool:
        """Use a key, which becomes the most recently used one; return True if it was present."""
        entries = self._entries
        if key in entries:
            entries.move_to_end(key)
            return True
        entries[key] = None
        if len(entries) > self.capacity:
            entries.popitem(last=False)
        return False

    def fill(self, newest: npt.NDArray[np.int64]) -> None:
        """Fill the (empty) cache with distinct keys, newest first, up to its capacity."""
        self._entries = OrderedDict.fromkeys(newest[: self.capacity][::-1].tolist())

    def drop(self, key: int) -> None:
        """Remove a key, if present."""
        self._entries.pop(key, None)

    def __len__(self) -> int:
        return len(self._entries)
