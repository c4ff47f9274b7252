"""Traces told again, and faults put into them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from evaluation.recordings.injecting import (
    KINDS,
    LEAST_AFFECTED,
    LEAST_SLOWER,
    as_line,
    injected,
    stretches_of,
)
from evaluation.recordings.labelled import read_recordings
from evaluation.recordings.replayed import Span, below, told_again
from hypothesis import given
from hypothesis import strategies as st

T0 = 1_661_000_000 * 10**9


def span(name: str, start: int, end: int, *calls: Span) -> Span:
    service = name.partition("/")[0]
    return Span(f"{crc32(f'{name} {start}'.encode()):016x}", name, service, service, start, end, list(calls))


@st.composite
def trees(draw: st.DrawFn, start: int = 0, depth: int = 3) -> Span:
    """Calls that overlap, begin before the caller, outlast it."""
    length = draw(st.integers(1, 1_000))
    calls = (
        []
        if depth == 0
        else sorted(
            (
                draw(trees(start + draw(st.integers(-20, 1_200)), depth - 1))
                for _ in range(draw(st.integers(0, 3)))
            ),
            key=lambda call: (call.start, call.end, call.id),
        )
    )
    return span(f"a/{draw(st.integers(0, 9))}", start, start + length, *calls)


def times(root: Span) -> list[tuple[str, int, int]]:
    return [(one.name, one.start, one.end) for one in below(root)]


@given(trees())
def test_without_a_change_nothing_moves(root: Span) -> None:
    before = times(root)
    told_again(root)
    assert times(root) == before


@given(trees(), st.integers(0, 5_000), st.data())
def test_a_delay_makes_nothing_faster_and_nobody_wait_for_longer(
    root: Span, delay: int, data: st.DataObject
) -> None:
    before = {id(one): (one.start, one.end) for one in below(root)}
    data.draw(st.sampled_from(below(root))).delay = delay
    told_again(root)
    for one in below(root):
        start, end = before[id(one)]
        assert 0 <= one.start - start <= delay
        assert 0 <= one.end - end <= delay


def test_who_waits_is_moved_and_who_runs_beside_is_not() -> None:
    slow, beside, after = span("b/x", 10, 20), span("c/y", 12, 90), span("d/z", 25, 40)
    root = span("a/r", 0, 100, slow, beside, after)
    slow.delay = 30
    told_again(root)
    assert (slow.start, slow.end) == (10, 50)
    assert (beside.start, beside.end) == (12, 90)
    assert (after.start, after.end) == (55, 70)
    assert root.end == 100
    # By more than what ran beside it hides.
    slow.delay = 100
    told_again(root)
    assert (slow.end, after.end, root.end) == (150, 170, 100)


def test_calls_are_repeated_left_out_and_cut_short() -> None:
    def root() -> Span:
        return span("a/r", 0, 100, span("b/x", 10, 30, span("c/y", 15, 25)), span("d/z", 40, 90))

    again = root()
    again.calls[0].made = 3
    told_again(again)
    assert [(one.name, one.start, one.end) for one in again.calls] == [
        *(("b/x", 10, 30), ("b/x", 30, 50), ("b/x", 50, 70)),
        ("d/z", 80, 130),
    ]
    assert again.end == 140
    assert len({one.id for one in below(again)}) == len(below(again)) == 8
    skipped = root()
    skipped.calls[0].made = 0
    told_again(skipped)
    assert times(skipped) == [("a/r", 0, 80), ("d/z", 20, 70)]
    cut = root()
    cut.calls[0].failed = True
    told_again(cut)
    assert times(cut) == [("a/r", 0, 85), ("b/x", 10, 15), ("d/z", 25, 75)]


def test_lines_hold_what_was_told(tmp_path: Path) -> None:
    failed = span("b/x", T0 + 10, T0 + 30)
    failed.failed = True
    (tmp_path / "cases.json").write_text(
        json.dumps(
            [
                {
                    "recording": "one.zst",
                    "quiet": ["2022-08-20T12:00:00Z/2022-08-20T13:00:00Z"],
                    "cases": [],
                }
            ]
        )
    )
    with pa.CompressedOutputStream(str(tmp_path / "one.zst"), "zstd") as sink:
        sink.write(as_line("t1", span("a/r", T0, T0 + 100, failed)))
    (recording,) = read_recordings(tmp_path)
    ((found,),) = [list(traces.values()) for traces in stretches_of(recording).values()]
    assert times(found) == [("a/r", T0, T0 + 100), ("b/x", T0 + 10, T0 + 30)]
    line: dict[str, Any] = json.loads(as_line("t1", found))
    assert [r["resource"]["attributes"][0]["value"]["stringValue"] for r in line["resourceSpans"]] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_every_second_stretch_gets_a_fault_that_shows_where_it_is_said_to_be(seed: int) -> None:
    def stretch() -> dict[str, Span]:
        found = {}
        for number in range(1, 61):
            start = T0 + number * 10_000
            stored = span("c/y", start + 15, start + 25)
            called = (span("b/x", start + 10, start + 60, stored), span("d/z", start + 70, start + 90))
            found[f"t{number}"] = span("a/r", start, start + 100 + number, *called)
        return found

    texts = [f"2022-08-20T12:0{minute}:00Z/2022-08-20T12:0{minute + 1}:00Z" for minute in (1, 3, 5)]
    cases, traces = injected({text: stretch() for text in texts}, seed, np.random.default_rng(seed))
    (case,) = cases
    at = 1 if seed % 2 else 2
    assert (case["reference"], case["problem"]) == (texts[at - 1], texts[at])
    kind, _, operation = case["type"].partition(":")
    assert kind == KINDS[(at // 2 + seed) % len(KINDS)]
    assert operation.startswith(case["service"])
    before = {trace: as_line(trace, root) for trace, root in stretch().items()}
    changed = sum(as_line(trace, root) != before[trace] for trace, root in traces)
    assert changed == case["affected"] > 0
    assert (case["visible"] is True) == (
        case["affected"] >= LEAST_AFFECTED
        and (kind[:4] not in ("slow", "tail") or case["slower"] >= LEAST_SLOWER)
    )
