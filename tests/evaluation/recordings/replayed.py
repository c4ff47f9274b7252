"""A trace told again with something changed in it: who waited for whom is kept, times move.

Every span of a trace hangs on what came before it: its start on the end of the sibling that ended last before
it (or on the start of the caller), its end on the end of the last call inside it. What is changed in one span
so moves whoever waited for it, and nobody else: calls that ran beside it stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Self


@dataclass
class Span:
    """One span; times in ns since the epoch."""

    id: str
    name: str
    service: str
    host: str
    start: int
    end: int
    calls: list[Span] = field(default_factory=list)
    """In the order of their starts."""
    delay: int = 0
    """To be added before its first call, ns."""
    made: int = 1
    """How often it is to be called, one after the other."""
    failed: bool = False
    """It is to end, as an error, when it would make its first call."""
    version: str = ""
    """Of the service, where that was recorded."""

    @property
    def own(self) -> int:
        """Time inside that no call covers, ns; calls that overlap count once."""
        covered, until = 0, self.start
        for call in self.calls:
            start, end = max(call.start, until), min(call.end, self.end)
            covered += max(end - start, 0)
            until = max(until, end)
        return self.end - self.start - covered

    def copy(self, number: int = 0) -> Self:
        """With everything below it. number: of the copy, for ids of its own; 0: as they are."""
        own = blake2b(f"{number}{self.id}".encode(), digest_size=8).hexdigest() if number else self.id
        calls = [call.copy(number) for call in self.calls]
        return replace(self, id=own, calls=calls)


def below(span: Span) -> list[Span]:
    """It and everything below it."""
    found = [span]
    for one in found:
        found.extend(one.calls)
    return found


def told_again(root: Span) -> None:
    """Move all times in the tree to where the delays in it put them. Without any, nothing moves."""
    _place(root, root.start)


def _place(span: Span, start: int) -> None:
    begun, ended = span.start, span.end
    was = [(call.start, call.end) for call in span.calls]
    span.start = start
    ready = start + span.delay
    if span.failed:
        span.calls = []
        span.end = ready + max((was[0][0] if was else ended) - begun, 1)
        return
    ends: list[int] = []
    placed: list[Span] = []
    for at, call in enumerate(span.calls):
        end = _moved(was[at][0], begun, ready, was[:at], ends, latest=was[at][0] - 1)
        calls = [call, *(call.copy(number) for number in range(1, call.made))][: call.made]
        for one in calls:
            _place(one, end)
            end = one.end
        ends.append(end)
        placed += calls
    span.end = _moved(ended, begun, ready, was, ends, latest=ended)
    span.calls = sorted(placed, key=lambda call: (call.start, call.end, call.id))


def _moved(
    instant: int, begun: int, ready: int, was: Sequence[tuple[int, int]], ends: Sequence[int], latest: int
) -> int:
    """Where an instant comes to lie that hung on the call that ended last (by `latest`), or on the start."""
    ended = [(end, at) for at, (_, end) in enumerate(was) if end <= latest]
    if not ended:
        return ready + instant - begun
    end, at = max(ended)
    return ends[at] + instant - end
