"""Programs of services drawn by chance, of which one fails now and then: callers pass that on, or do not."""

from __future__ import annotations

import random
from dataclasses import dataclass

from oracles.refined import Call, call

from schemas.events import EventKind

TRIES = 3
HOW = ("pass", "pass", "swallow", "retry", "fallback")
"""What a caller does about a failure: ends with it, goes on, tries again and ends, does something instead."""


@dataclass(frozen=True)
class Program:
    """Services by number call those of higher numbers; the last ones are pages, which nobody calls."""

    calls: tuple[tuple[int, ...], ...]
    how: tuple[str, ...]
    remote: tuple[bool, ...]
    """Whether calls of it have a span of the caller's side."""
    pages: int
    fault: int
    """Service that fails."""
    share: float
    """Of its calls."""

    @staticmethod
    def drawn(rng: random.Random) -> Program:
        services, pages = rng.randint(5, 9), rng.randint(1, 3)
        calls = []
        for own in range(services):
            later = range(own + 1, services)
            calls.append(tuple(sorted(rng.sample(later, min(len(later), rng.choice([0, 1, 1, 2, 3]))))))
        first = range(services // 2)
        calls += [tuple(sorted(rng.sample(first, min(len(first), rng.randint(1, 3))))) for _ in range(pages)]
        return Program(
            tuple(calls),
            tuple(rng.choice(HOW) for _ in calls),
            tuple(rng.random() < 0.6 for _ in calls),
            pages,
            rng.randrange(services),
            rng.choice([1.0, 0.7, 0.5, 0.3, 0.2]),
        )

    def requests(self, rng: random.Random, n: int, *, fails: bool) -> list[Call]:
        """Requests of pages drawn by chance."""
        pages = range(len(self.calls) - self.pages, len(self.calls))
        return [self._run(rng.choice(pages), 0.0, rng, fails=fails) for _ in range(n)]

    def _run(self, service: int, start: float, rng: random.Random, *, fails: bool) -> Call:
        at, below, failed = start + rng.randint(5, 15), [], False
        if fails and service == self.fault and rng.random() < self.share:
            at, failed = at + rng.randint(5, 10), True
        else:
            for called in self.calls[service]:
                tries = self._tried(service, called, at, rng, fails=fails)
                below += tries
                at = tries[-1].end + rng.randint(1, 4)
                if tries[-1].status != "error":
                    continue
                if self.how[service] == "fallback":
                    below.append(call(f"s{service}/fallback", at, at + 20))
                    at += 22
                elif self.how[service] != "swallow":
                    failed = True
                    break
            at += rng.randint(20, 60)
        status = "error" if failed else "ok"
        return call(f"s{service}/op", start, at, *below, kind=EventKind.SPAN_SERVER, status=status)

    def _tried(self, service: int, called: int, at: float, rng: random.Random, *, fails: bool) -> list[Call]:
        tries: list[Call] = []
        while not tries or (
            tries[-1].status == "error" and self.how[service] == "retry" and len(tries) < TRIES
        ):
            if not self.remote[called]:
                tries.append(self._run(called, at, rng, fails=fails))
            else:
                inner = self._run(called, at + 2, rng, fails=fails)
                kind = EventKind.SPAN_CLIENT
                name = f"s{service}/send {called}"
                tries.append(call(name, at, inner.end + 2, inner, kind=kind, status=inner.status))
            at = tries[-1].end + 1
        return tries
