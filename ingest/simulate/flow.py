"""Serve a request: its strands, its steps, its draws, and what a fault did to it."""

from __future__ import annotations

from ingest.simulate.streams import MASK, Stream, mix_one

CHILD_SHIFT, COUNT_SHIFT = 20, 12
CODE_MASK = (1 << COUNT_SHIFT) - 1
COUNT_MASK = (1 << (CHILD_SHIFT - COUNT_SHIFT)) - 1
"""A step is `code | strands << 12 | first strand << 20`: splits and joins name consecutive strands."""
MAX_FORK = COUNT_MASK

_KEY_BITS = 30
_KEY_MASK = (1 << _KEY_BITS) - 1


class Strand:
    """One strand of sequential activity. `t` is its own clock, ns since the start of the run."""

    __slots__ = ("a", "b", "codes", "flow", "number", "t", "times", "visits")

    def __init__(self, flow: Flow, number: int, key: int, t: float, n_streams: int) -> None:
        self.flow = flow
        self.number = number
        self.a = key & _KEY_MASK
        self.b = (key >> _KEY_BITS) & _KEY_MASK | 1
        self.t = t
        self.codes: list[int] = []
        self.times: list[float] = []
        self.visits = [0] * n_streams

    def draw(self, stream: Stream) -> float:
        """The next draw from a stream, ns (or a number in (0, 1) from a uniform one, whose mean is 1 ns)."""
        number = stream.number
        visit = self.visits[number]
        self.visits[number] = visit + 1
        return stream.mean_ns * stream.table[(self.a + (stream.key + visit) * self.b) & MASK]

    def mark(self, code: int) -> None:
        """Reach a trace point now."""
        self.codes.append(code)
        self.times.append(self.t)

    def work(self, stream: Stream, code: int) -> None:
        """Spend a draw, then reach a trace point."""
        number = stream.number
        visit = self.visits[number]
        self.visits[number] = visit + 1
        self.t += stream.mean_ns * stream.table[(self.a + (stream.key + visit) * self.b) & MASK]
        self.codes.append(code)
        self.times.append(self.t)

    def fork(self, code: int, n: int) -> list[Strand]:
        """Split: n new strands begin now (1 ≤ n ≤ MAX_FORK); this one goes on."""
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
        """Merge children that have ended; the clock moves to the last of them."""
        self.t = max(self.t, max(child.t for child in children))
        self.mark(code | len(children) << COUNT_SHIFT | children[0].number << CHILD_SHIFT)

    def touch(self, cause: int, added_ns: float) -> None:
        """Note that a fault acted on the step that is reached next, adding this much work."""
        self.flow.touches.append((cause, self.number, len(self.codes), added_ns))


class Flow:
    """One request: its row in the workload, its strands, and the touches of faults.

    `touches` holds (cause, strand, step, added ns). It is the simulator's own record for the truth file and
    never reaches a trace.
    """

    __slots__ = ("live", "row", "strands", "touches")

    def __init__(self, row: int) -> None:
        self.row = row
        self.strands: list[Strand] = []
        self.touches: list[tuple[int, int, int, float]] = []
        self.live = 1
