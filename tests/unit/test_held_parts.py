"""Parts of windows that wait in memory for the other parts of their windows."""

from __future__ import annotations

import sys

import pytest
from oracles.lake_script import WINDOW_NS, flows_table, structures_table

from flowdiff.live.memory import resident_bytes
from schemas.lake import PARAMS_SCHEMA
from stitch.drivers.sharded.left_parts import hold_parts
from stitch.heap import give_back
from stitch.lake.layout import WINDOW_TABLES
from stitch.lake.windowing import WindowPart, cut


def parts(n: int) -> list[WindowPart]:
    """Parts of `n` windows of one request each."""
    flows = flows_table([f"r{at}" for at in range(n)], [at * WINDOW_NS for at in range(n)])
    return [*cut(flows, structures_table(), PARAMS_SCHEMA.empty_table(), WINDOW_NS)]


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 600])
def test_a_held_part_has_the_rows_that_it_was_made_of(n: int) -> None:
    made = parts(n)
    held = [*hold_parts(made)]
    assert len(held) == n
    for one, other in zip(held, made, strict=True):
        again = one.part()
        assert (one.window, one.nbytes) == (other.window, other.nbytes)
        assert all(getattr(again, name).equals(getattr(other, name)) for name in WINDOW_TABLES)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the GNU C library's")
def test_a_part_of_one_request_takes_little_more_than_its_rows() -> None:
    """Three tables of a part of their own took 25 kB: 4.9 GB for an import of a year of such windows."""
    n = 4_000
    flows = flows_table([f"r{at}" for at in range(n)], [at * WINDOW_NS for at in range(n)])
    give_back()
    before = resident_bytes()
    held = [*hold_parts(cut(flows, structures_table(), PARAMS_SCHEMA.empty_table(), WINDOW_NS))]
    give_back()
    assert len(held) == n
    assert (resident_bytes() - before) / n < 6_000
