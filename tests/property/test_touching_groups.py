"""Groups that contain a call site, beside a look at one after another."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analyze.methods.robust.affected_requests import touching
from analyze.methods.robust.changes import NO_PATTERN
from analyze.profile.call_sites import GraphSites, RequestGroup

Places = list[tuple[int, int]]
NUMBER = st.integers(0, 5)


def group_of(sites: list[int], places: Places) -> RequestGroup:
    """A group of no request whose graph has steps at `sites` and points with (site, pattern) `places`."""
    none = np.zeros(0, np.int64)
    site, patterned, pattern = (
        np.array(column, np.int64)
        for column in (sites, [of for of, _ in places], [pattern for _, pattern in places])
    )
    no = np.zeros(0, np.bool_)
    return RequestGroup(
        0,
        none,
        none,
        GraphSites(none, none, none, site, none, none, none, patterned, pattern, no, none, False),
    )


@given(
    st.lists(
        st.tuples(st.lists(NUMBER, max_size=4), st.lists(st.tuples(NUMBER, NUMBER), max_size=4)), max_size=5
    ),
    st.lists(NUMBER, max_size=3),
    st.one_of(st.just(NO_PATTERN), NUMBER),
)
def test_groups_are_those_that_a_loop_finds(
    made: list[tuple[list[int], Places]], asked: list[int], pattern: int
) -> None:
    plain = [
        number
        for number, (sites, places) in enumerate(made)
        if any(of in asked and pattern in (NO_PATTERN, its) for of, its in places)
        or (pattern == NO_PATTERN and {*sites} & {*asked})
    ]
    assert touching([group_of(*one) for one in made], asked, pattern) == plain
