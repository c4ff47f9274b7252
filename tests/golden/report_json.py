"""A report as a golden file keeps it, and how two of them differ.

What is kept are facts: verdict, breakdown, findings, rows, explanations, sentences. Drawings, distributions,
ids and settings go, and fields without a value; a long list keeps its first rows and their number. Numbers
agree within `TOLERANCE`, as vector units sum in different orders; all else agrees exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isclose
from typing import Any

Json = Any
Difference = tuple[str, Json, Json]
"""(path, expected, found)."""

TOLERANCE = 1e-6
"""Relative. Sums of µs that cancel leave residues of 1e-9: below this no number differs from 0, either."""
DIGITS = 9
ROWS = 8
"""Of a list of objects."""
NUMBERS = 40
"""Of a list of anything else."""
LINE = 140
ROW = 1_000
"""A line of figures that are kept: a row of a table."""
DROPPED = frozenset(
    {
        *("id", "source", "preparation", "settings", "schema_version"),
        *("graphs", "canonical", "histogram", "histograms", "distribution", "bins", "views"),
        *("schedule", "schedules", "density", "layout", "flows", "lanes", "messages", "edges_ns", "when"),
        *("strip", "picture"),
    }
)
"""Drawings, ids, what was asked for, and times within a period, which have tests of their own."""
ABSENT = "(absent)"


def kept(value: Json) -> Json:
    """The part of a report that a golden file holds."""
    if isinstance(value, dict):
        return {key: kept(part) for key, part in value.items() if key not in DROPPED and not _is_empty(part)}
    if isinstance(value, list):
        most = ROWS if any(isinstance(part, dict | list) for part in value) else NUMBERS
        rows = [kept(part) for part in value[:most]]
        return rows if len(value) <= most else [*rows, f"{len(value) - most} more"]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _is_empty(value: Json) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def written(value: Json, indent: str = "", line: int = LINE) -> str:
    """JSON in which what fits is on one line: short to keep, and a difference of two is read easily."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(flat) <= line or not isinstance(value, dict | list) or not value:
        return flat
    inner = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {written(part, inner, line)}" for key, part in value.items()]
        return "{\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + written(part, inner, line) for part in value) + f"\n{indent}]"


def differences(expected: Json, found: Json, path: str = "") -> Iterator[Difference]:
    """Where two differ, in the order of the report."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in dict.fromkeys([*expected, *found]):
            yield from differences(expected.get(key, ABSENT), found.get(key, ABSENT), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(found, list):
        for at in range(max(len(expected), len(found))):
            sides = [side[at] if at < len(side) else ABSENT for side in (expected, found)]
            before, after = sides
            yield from differences(before, after, f"{path}[{at}]")
    elif not _same(expected, found):
        yield path.lstrip("."), expected, found


def _same(expected: Json, found: Json) -> bool:
    numbers = [isinstance(side, int | float) and not isinstance(side, bool) for side in (expected, found)]
    if all(numbers):
        return isclose(expected, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(expected) is type(found) and bool(expected == found)


def only_words_differ(expected: Json, found: Json) -> bool:
    """Whether all numbers are where they were: names of fields and sentences may be others."""
    ours, theirs = list(_numbers(expected)), list(_numbers(found))
    return len(ours) == len(theirs) and all(map(_same, ours, theirs))


def _numbers(value: Json) -> Iterator[Json]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _numbers(part)
    elif not isinstance(value, str):
        yield value
