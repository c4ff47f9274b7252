"""The plan of a log, request by request: each begins at its earliest event, or where it is said to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from stitch.closing import NEVER
from stitch.columnar.hashing import mix

Entry = tuple[int, int, int, int]
"""Key, first and last time (NEVER, -NEVER: none), events."""
At = tuple[int, int]
"""Lane, commit."""


def plain_plan(
    segments: Mapping[At, Iterable[Entry]], length_ns: int, moved: Mapping[int, int]
) -> tuple[dict[int, dict[int, tuple[int, int, int]]], dict[At, dict[int, int]], dict[int, str]]:
    """(Window -> request -> first, last, events; segment -> window -> events; window -> digest)."""
    every = [entry for entries in segments.values() for entry in entries]
    found: dict[int, tuple[int, int, int]] = {}
    for key, first, last, rows in every:
        before = found.get(key, (int(NEVER), -int(NEVER), 0))
        found[key] = min(before[0], first), max(before[1], last), before[2] + rows
    start_of = {}
    for key, (first, _, _) in found.items():
        start_of[key] = moved.get(key, int(NEVER) if first == NEVER else first // length_ns * length_ns)
    windows: dict[int, dict[int, tuple[int, int, int]]] = defaultdict(dict)
    for key, request in found.items():
        windows[start_of[key]][key] = request
    rows_of: dict[At, dict[int, int]] = {}
    for at, entries in segments.items():
        rows_of[at] = defaultdict(int)
        for key, _, _, rows in entries:
            rows_of[at][start_of[key]] += rows
    return dict(windows), {at: dict(own) for at, own in rows_of.items()}, _digests(segments, start_of)


def _digests(segments: Mapping[At, Iterable[Entry]], start_of: Mapping[int, int]) -> dict[int, str]:
    of_request: dict[int, int] = defaultdict(int)
    for (lane, seq), entries in segments.items():
        origin = _mixed(lane * 0x9E3779B97F4A7C15 + seq)
        for key, _, _, rows in entries:
            of_request[key] += _mixed(key ^ origin) * rows
    total: dict[int, int] = defaultdict(int)
    for key, digest in of_request.items():
        total[start_of[key]] += _mixed(digest % 2**64 ^ _mixed(key))
    return {start: f"{digest % 2**64:016x}" for start, digest in total.items()}


def _mixed(number: int) -> int:
    return int(mix(np.array([number % 2**64], np.uint64))[0])
