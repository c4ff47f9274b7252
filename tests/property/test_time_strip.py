"""Courses over time equal those counted request by request."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.populations import chain, population
from oracles.time_strip import course

from analyze.profile.samples import ComparedSamples
from analyze.profile.time_strip import _TICKS_NS, MOST_TICKS, tick_of, time_strip
from analyze.report.drawing.time_strip import time_strip as drawn
from schemas.report.time_strip import Mark, TimeStrip
from schemas.windows import NS_PER_DAY

REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 4_000_000_000),
        st.integers(1, 10**9),
        st.floats(0.5, 8),
        st.booleans(),
        st.integers(0, 1),
    ),
    min_size=2,
    max_size=40,
)


@given(st.integers(0, 2**62), st.lists(st.integers(0, 10**16), min_size=2, max_size=2, unique=True))
def test_ticks_are_few_and_no_finer_ones_are(at_ns: int, apart: list[int]) -> None:
    first_ns, last_ns = at_ns, at_ns + max(apart)
    tick_ns = tick_of(first_ns, last_ns)
    assert last_ns // tick_ns - first_ns // tick_ns < MOST_TICKS
    finer = [one for one in (*_TICKS_NS, tick_ns - NS_PER_DAY) if 0 < one < tick_ns]
    assert all(last_ns // one - first_ns // one >= MOST_TICKS - 1 for one in finer)
    assert all(last_ns // one - first_ns // one >= MOST_TICKS for one in finer if one < NS_PER_DAY)


@given(REQUESTS)
def test_a_course_is_what_its_requests_say(rows: list[tuple[int, int, float, bool, int]]) -> None:
    rows = sorted(((*row[:4], at % 2) for at, row in enumerate(rows)), key=lambda row: row[4])
    made = chain(["a", "b"], [[row[1]] for row in rows if not row[4]], [[row[1]] for row in rows if row[4]])
    made = replace(
        made,
        start_ns=np.array([row[0] for row in rows], np.int64),
        weight=np.array([row[2] for row in rows]),
        status=np.array([row[3] for row in rows], np.int32),
    )
    strip = time_strip(ComparedSamples(population(made, statuses=("ok", "broken"))))
    assert strip is not None
    for sample, found in enumerate((strip.before, strip.after)):
        own = [(at, ns / 1000, weight, failed) for at, ns, weight, failed, of in rows if of == sample]
        expected = course(own, found.tick_ns)
        assert len(found.requests) == len(expected)
        for at, (n, *values) in enumerate(expected):
            assert found.requests[at] == n
            told = found.mean_us[at], found.p95_us[at], found.failed_share[at]
            if n:
                assert told == pytest.approx(tuple(values))
            else:
                assert told == (None, None, None)
    marked = TimeStrip(
        before=strip.before, after=strip.after, marks=(Mark(at_ns=rows[0][0], text="<cart> 2"),)
    )
    markup = drawn(marked, rows[-1][0]).markup
    assert "&lt;cart&gt; 2" in markup
    assert "NaN" not in markup
    assert "<cart>" not in markup


def test_three_samples_and_statistics_have_no_strip() -> None:
    alone = population(chain(["a", "b"], [[1000]], []))
    assert time_strip(ComparedSamples(alone)) is None
    assert time_strip(ComparedSamples(replace(alone, samples=alone.samples[:1]))) is None


@pytest.mark.parametrize(("apart_ns", "room"), [(0, 0.6), (60 * 10**9, 8.0), (-60 * 10**9, 8.0)])
def test_periods_that_follow_each_other_have_no_gap(apart_ns: int, room: float) -> None:
    strip = time_strip(ComparedSamples(population(chain(["a", "b"], [[1000]] * 9, [[1000]] * 9))))
    assert strip is not None
    begin = strip.before.end_ns + apart_ns
    after = strip.after.model_copy(update={"start_ns": begin, "end_ns": begin + 60 * 10**9})
    markup = drawn(strip.model_copy(update={"after": after})).markup
    axes = re.findall(r'class="axis" x1="([\d.]+)%" x2="([\d.]+)%"', markup)
    assert float(axes[1][0]) - float(axes[0][1]) == pytest.approx(room, abs=0.1)
