"""Days of six services as OTLP: seasons, autocorrelation, day effects, changes of known time and size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from schemas.windows import NS_PER_MINUTE

WINDOW_NS = 5 * NS_PER_MINUTE
WINDOWS_A_DAY = 288
MONDAY_NS = 1_760_918_400_000_000_000
REQUESTS = 60
"""Of a window, on average."""
OWN_MS = {"shop": 1.0, "cart": 2.0, "store": 3.0, "catalogue": 4.0, "payment": 6.0, "bank": 20.0}
CALLS: dict[str, tuple[str, ...]] = {"cart": ("store",), "catalogue": ("store",), "payment": ("bank",)}
ROOTS = {"GET /cart": ("cart", "catalogue"), "GET /item": ("catalogue",), "POST /pay": ("payment",)}
SHARES = (0.5, 0.3, 0.2)
SPREAD = 0.4
"""Of logarithms of own times in a window; the means of windows move by DRIFT (autocorrelation RHO), over the
day by SEASON, from day to day by DAY."""
DRIFT, RHO, SEASON, DAY = 0.05, 0.6, 0.1, 0.03
FAILING = 0.002
"""Share of calls that fail anyway."""


@dataclass(frozen=True)
class Change:
    """A service is slower by a factor, or fails more often, for some windows."""

    service: str
    first: int
    past: int
    slower: float = 1.0
    failing: float = 0.0

    @property
    def day(self) -> int:
        """On which it begins."""
        return self.first // WINDOWS_A_DAY

    @property
    def start_ns(self) -> int:
        return MONDAY_NS + self.first * WINDOW_NS

    @property
    def end_ns(self) -> int:
        return MONDAY_NS + self.past * WINDOW_NS


def write_days(
    path: Path, seed: int, first: int, past: int, changes: Sequence[Change], requests: int = REQUESTS
) -> None:
    """Write days `first` to `past`; days are the same however many are written at once."""
    with path.open("w") as out:
        for day in range(first, past):
            rng = np.random.default_rng([seed, day])
            levels, fails = day_of(rng, day, changes)
            for number, expected in enumerate(requests_of(requests)):
                level = {service: levels[service][number] for service in OWN_MS}
                failing = {service: fails[service][number] for service in OWN_MS}
                n = rng.poisson(expected)
                for line in _window(rng, day * WINDOWS_A_DAY + number, n, level, failing):
                    out.write(line)


def day_of(
    rng: np.random.Generator, day: int, changes: Sequence[Change]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Draw a day: [its windows] logarithms of own times in ms, and shares of calls that fail, of each
    service."""
    levels = {
        service: np.log(OWN_MS[service]) + rng.normal(0, DAY) + _drift(rng) + SEASON * np.sin(_hours() + k)
        for k, service in enumerate(OWN_MS)
    }
    fails = {service: np.full(WINDOWS_A_DAY, FAILING) for service in OWN_MS}
    windows = day * WINDOWS_A_DAY + np.arange(WINDOWS_A_DAY)
    for change in changes:
        here = (change.first <= windows) & (windows < change.past)
        levels[change.service] += np.log(change.slower) * here
        fails[change.service] += change.failing * here
    return levels, fails


def requests_of(requests: float) -> np.ndarray:
    """[windows of a day] how many requests are expected, so many on average."""
    expected: np.ndarray = requests * (1 + 0.5 * np.sin(_hours()))
    return expected


def _hours() -> np.ndarray:
    return np.arange(WINDOWS_A_DAY) * 2 * np.pi / WINDOWS_A_DAY


def _drift(rng: np.random.Generator) -> np.ndarray:
    noise = rng.standard_t(5, WINDOWS_A_DAY) * DRIFT / np.sqrt(5 / 3) * np.sqrt(1 - RHO**2)
    found, last = np.empty(WINDOWS_A_DAY), 0.0
    for at, one in enumerate(noise):
        found[at] = last = RHO * last + one
    return found


def _window(
    rng: np.random.Generator, window: int, n: int, level: dict[str, float], failing: dict[str, float]
) -> Iterator[str]:
    spans: dict[str, list[str]] = {service: [] for service in OWN_MS}
    starts = MONDAY_NS + window * WINDOW_NS + np.sort(rng.integers(0, WINDOW_NS - 10**9, n))
    kinds = rng.choice(len(ROOTS), n, p=SHARES)
    for number in range(n):
        trace = f"{window:016x}{number:016x}"
        root, callees = [*ROOTS.items()][kinds[number]]
        draws = iter(rng.normal(0, SPREAD, 8).tolist())
        fails = iter(rng.random(8).tolist())
        _span(spans, trace, "shop", root, "", int(starts[number]), callees, (level, failing, draws, fails))
    for service, told in spans.items():
        yield (
            (
                '{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"'
                + service
                + '"}}]},"scopeSpans":[{"spans":['
                + ",".join(told)
                + "]}]}]}\n"
            )
            if told
            else ""
        )


def _span(
    spans: dict[str, list[str]],
    trace: str,
    service: str,
    name: str,
    parent: str,
    start: int,
    callees: Sequence[str],
    drawn: tuple[dict[str, float], dict[str, float], Iterator[float], Iterator[float]],
) -> int:
    """A span with what it calls, one after the other; its end."""
    level, failing, draws, fails = drawn
    mine = f"{len(spans[service]):08x}{sum(map(ord, service)):08x}"
    spans[service].append("")
    place = len(spans[service]) - 1
    own = int(np.exp(level[service] + next(draws)) * 1e6)
    at = start + own // 2
    for callee in callees:
        at = _span(spans, trace, callee, f"{callee}/do", mine, at, CALLS.get(callee, ()), drawn)
    end = at + own - own // 2
    status = ',"status":{"code":2}' if next(fails) < failing[service] else ""
    spans[service][place] = (
        f'{{"traceId":"{trace}","spanId":"{mine}","parentSpanId":"{parent}","name":"{name}","kind":2,'
        f'"startTimeUnixNano":"{start}","endTimeUnixNano":"{end}"{status}}}'
    )
    return end
