"""What browsing computes by columns, against plain counting."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles.browsing import (
    distance_of,
    plain_density,
    plain_flow,
    plain_medoid,
    plain_modes,
    plain_range,
)
from oracles.examples import examples
from oracles.site_populations import record_populations, span_populations
from oracles.sites import words_of

from analyze.methods.browse.browse_run import browse_run
from analyze.methods.browse.places import host_times
from analyze.methods.browse.response_bins import (
    bin_edges,
    kinds_in,
    mode_ranges,
    response_bins,
    sites_in,
    tail_bin,
)
from analyze.methods.browse.schedules import mean_times, medoid, train_schedule
from analyze.methods.browse.settings import BrowseSettings
from analyze.methods.browse.timeline import Entry, most_in_flight, pack_lanes, time_within
from analyze.population import Population
from analyze.profile.times import path_times
from analyze.stats.density import PROMINENCE, Density, Mode, log_density, modes

POPULATIONS = st.one_of(span_populations(), record_populations())
SMALL = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), min_size=1, max_size=12)


@examples(15)
@given(POPULATIONS, st.integers(1, 12), st.randoms(use_true_random=False))
def test_a_range_is_what_counting_says(found: Population, bins: int, random: object) -> None:
    times = path_times(found)
    ns = np.concatenate([c.response_ns[c.rows(0)] for c in found.categories])
    assume(len(ns) > 0)
    edges = bin_edges(ns, bins, ())
    binned = response_bins(found, times, 0, edges)
    first = random.randrange(binned.n_bins)  # type: ignore[attr-defined]
    past = random.randrange(first + 1, binned.n_bins + 1)  # type: ignore[attr-defined]
    inside, outside = plain_range(found, 0, int(edges[first]), int(edges[past]))
    assert int(binned.n[first:past].sum()) == inside.n
    assert binned.failed[first:past].sum() == pytest.approx(float(inside.failed))
    assert binned.us[first:past].sum() * 1e3 == pytest.approx(float(inside.ns))
    categories = kinds_in(binned.categories, first, past)
    roots = kinds_in(binned.roots, first, past)
    for number, name in enumerate(binned.root_names):
        mine = [i for i, c in enumerate(found.categories) if c.graph.root == name]
        assert roots.n[number] == sum(inside.categories_n[i] for i in mine)
        assert roots.share_in[number] == pytest.approx(sum(categories.share_in[i] for i in mine))
        assert roots.share_out[number] == pytest.approx(sum(categories.share_out[i] for i in mine))
    for number in range(len(found.categories)):
        assert categories.n[number] == inside.categories_n[number]
        share = float(inside.categories[number] / inside.weight) if inside.weight else 0.0
        assert categories.share_in[number] == pytest.approx(share)
        other = float(outside.categories[number] / outside.weight) if outside.weight else 0.0
        assert categories.share_out[number] == pytest.approx(other, abs=1e-12)
        mine = inside.categories[number]
        failed = float(inside.categories_failed[number] / mine) if mine else 0.0
        assert categories.failed[number] == pytest.approx(failed)
    sites = sites_in(binned, first, past)
    for number, site in enumerate(words_of(times.names)["site"]):
        for part, share, mean in (
            (inside, sites.share_in[number], sites.mean_in_us[number]),
            (outside, sites.share_out[number], sites.mean_out_us[number]),
        ):
            weight = part.weight or 1
            assert share == pytest.approx(float(part.waited[site] / weight), abs=1e-12)
            assert mean * 1e3 == pytest.approx(float(part.site_ns[site] / weight), abs=1e-9)
        failing = float(inside.site_failed[site] / inside.weight) if inside.weight else 0.0
        assert sites.failed[number] == pytest.approx(failing, abs=1e-12)
    if inside.weight and outside.weight:
        difference = float(inside.ns / inside.weight - outside.ns / outside.weight) / 1e3
        told = float((sites.mean_in_us - sites.mean_out_us).sum())
        assert told == pytest.approx(difference, rel=1e-9, abs=1e-9)


@examples(60)
@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=40),
    st.integers(1, 40),
    st.lists(st.floats(-10, 30), max_size=4),
)
def test_every_time_is_in_one_bin(ns: list[int], bins: int, valleys: list[float]) -> None:
    times = np.array(ns, dtype=np.int64)
    edges = bin_edges(times, bins, [Mode(v, 1.0, v, math.inf) for v in sorted(valleys)])
    assert (np.diff(edges) > 0).all()
    assert edges[0] <= times.min()
    assert times.max() < edges[-1]
    assert len(edges) <= bins + len(valleys) + 2


@examples(80)
@given(SMALL, st.lists(st.integers(0, 60), min_size=2, max_size=6, unique=True))
def test_the_sweep_counts_every_instant(made: list[tuple[int, int]], cuts: list[int]) -> None:
    start, response = [s for s, _ in made], [r for _, r in made]
    edges = sorted(cuts)
    plain = plain_flow(start, response, edges)
    n = len(made)
    times = (np.array(column, dtype=np.int64) for column in (start, response))
    flow = Entry.of("a", *times, np.zeros(n, np.bool_), np.ones(n))
    at = np.array(edges, dtype=np.int64)
    assert flow.gaps.tolist() == plain.gaps
    assert time_within(flow.start, flow.end, at).tolist() == plain.at_work
    assert time_within(*flow.runs, at).tolist() == plain.busy
    assert most_in_flight(flow, at).tolist() == plain.most
    lanes = pack_lanes(flow.start, flow.end, 100)
    for lane in set(lanes.tolist()):
        mine = lanes == lane
        assert (flow.start[mine][1:] >= flow.end[mine][:-1]).all()


@examples(15)
@given(POPULATIONS)
def test_the_medoid_is_the_nearest(found: Population) -> None:
    for category in found.categories:
        rows = category.rows(0)
        if rows.start >= rows.stop:
            continue
        chosen = medoid(category, rows)
        assert rows.start <= chosen < rows.stop
        assert distance_of(category, rows, chosen) == pytest.approx(plain_medoid(category, rows))


@examples(15)
@given(POPULATIONS)
def test_schedules_add_up_to_the_response(found: Population) -> None:
    """Of a request: what is waited for, on lanes and by messages, is its response time. Of the mean: the mean
    time of the last response node, and no edge goes back in time."""
    times = path_times(found)
    for category, mine in zip(found.categories, times.categories, strict=True):
        rows = category.rows(0)
        if rows.start >= rows.stop:
            continue
        row = medoid(category, rows)
        one = train_schedule(category.graph, mine.graph, times.names, category.node_ns[:, row].astype(float))
        assert one.response_us * 1e3 == pytest.approx(category.response_ns[row])
        whole = sum(lane.waited_us for lane in one.lanes) + one.message_us
        assert whole == pytest.approx(one.response_us, abs=1e-9)
        waited = [bar for bar in one.bars if bar.waited]
        assert sum(b.end_us - b.start_us for b in waited) + one.message_us == pytest.approx(one.response_us)
        mean = mean_times(category, rows)
        for src, dst in category.graph.edges.tolist():
            assert mean[dst] >= mean[src] * (1 - 1e-12)
        drawn = train_schedule(category.graph, mine.graph, times.names, mean)
        assert drawn.response_us * 1e3 == pytest.approx(float(mean[category.graph.responses].max()))
        told = sum(lane.waited_us for lane in drawn.lanes) + drawn.message_us
        assert told == pytest.approx(drawn.response_us, abs=1e-9)
        w = category.weight[rows]
        average = float(w @ category.response_ns[rows] / w.sum())
        assert drawn.response_us * 1e3 <= average * (1 + 1e-12) + 1e-9
        if len(category.graph.responses) == 1:
            assert drawn.response_us * 1e3 == pytest.approx(average)


@examples(15)
@given(POPULATIONS)
def test_times_of_hosts_add_up_to_all(found: Population) -> None:
    hosts = host_times(found, path_times(found), 0)
    whole = sum(float(c.weight[c.rows(0)] @ c.response_ns[c.rows(0)]) for c in found.categories)
    assert hosts.us.sum() * 1e3 == pytest.approx(whole)
    for code, name in enumerate(found.hosts):
        n = failed = 0
        for category in found.categories:
            if category.host is None:
                continue
            for row in range(category.rows(0).start, category.rows(0).stop):
                n += bool((category.host[:, row] == code).any())
                failed += any(
                    category.host[p, row] == code
                    for r, p in zip(category.failures.row, category.failures.position, strict=True)
                    if r == row
                )
        assert (hosts.n[code], hosts.failed[code]) == (n, failed), name


@examples(12)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.booleans())
def test_the_density_is_a_sum_of_gaussians(seed: int, n: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    us = rng.lognormal(rng.choice([3.0, 7.0], n), 0.4)
    weight = rng.choice([1.0, 4.0], n) if weighted else np.ones(n)
    found = log_density(us, weight)
    assert found is not None
    step = found.at[1] - found.at[0]
    assert found.density.sum() * step == pytest.approx(1.0, abs=0.01)
    x = np.log2(us).tolist()
    # Times are shared among the two nearest points of the grid, which is fine beside the bandwidth.
    for place in range(0, len(found.at), 37):
        expected = plain_density(x, weight.tolist(), found.bandwidth, float(found.at[place]))
        off = 0.03 if step < found.bandwidth / 2 else 0.2
        assert found.density[place] == pytest.approx(expected, abs=off * found.density.max())


@examples(50)
@given(st.lists(st.integers(0, 12), min_size=3, max_size=40))
def test_modes_are_the_prominent_maxima(heights: list[int]) -> None:
    assume(max(heights) > 0)
    density = np.array(heights, dtype=float)
    drawn = Density(np.arange(len(heights), dtype=float), density, math.inf, 1.0, "isj")
    told = modes(drawn, 100)
    assert [int(mode.at) for mode in told] == plain_modes(heights, PROMINENCE * max(heights))
    for before, after in itertools.pairwise(told):
        assert before.high == after.low
        assert before.at < before.high < after.at


@examples(12)
@given(POPULATIONS, st.integers(1, 30))
def test_modes_part_the_requests(found: Population, most: int) -> None:
    found = replace(found, samples=found.samples[:1]).of_samples(0, 1)
    ranges = browse_run(found, BrowseSettings(modes=min(most, 20)))
    n = sum(c.rows(0).stop - c.rows(0).start for c in found.categories)
    parted = [one for one in ranges.ranges if one.mode is not None]
    if parted:
        assert sum(int(ranges.bins.n[one.first : one.past].sum()) for one in parted) == n
    tail = tail_bin(ranges.bins)
    assert ranges.bins.weight[tail:].sum() >= 0.01 * ranges.bins.weight.sum()
    assert ranges.bins.weight[tail + 1 :].sum() < 0.01 * ranges.bins.weight.sum() or n == 0
    assert mode_ranges(ranges.bins, ()) != []
