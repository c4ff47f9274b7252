"""Variances of random populations against rational numbers, and what adds up whatever comes in."""

from __future__ import annotations

import math
from datetime import date
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.site_populations import record_populations, span_populations
from oracles.sites import words_of
from oracles.variances import plain_requests, plain_shares, plain_variance, stretched

from analyze.methods.variance.covariance import correlated_pairs, covariance_shares, squares_over_orders
from analyze.methods.variance.markers import LabelRules, Marker
from analyze.methods.variance.method import variance_result
from analyze.methods.variance.settings import VarianceSettings
from analyze.methods.variance.variance_decomposition import (
    NOWHERE,
    SampleVariance,
    sample_variance,
    unmarked_edges,
)
from analyze.population import Population
from analyze.profile.names import site_name
from analyze.profile.times import path_times
from analyze.report.limits import ReportLimits
from schemas.report.variance import MarkerKind, VarianceDetailsSection, VarianceSection

POPULATIONS = st.one_of(span_populations(), record_populations())


def ns2(value: float) -> float:
    """µs² in ns²."""
    return value * 1e6


def close(value: float, expected: Fraction, scale: Fraction) -> bool:
    """Equal but for rounding; `scale`: the sum of what was added up."""
    return math.isclose(ns2(value), float(expected), rel_tol=1e-9, abs_tol=1e-9 * float(scale) + 1e-6)


@examples(30)
@given(POPULATIONS, st.integers(1, 6))
def test_every_part_is_that_of_rational_numbers(found: Population, times: int) -> None:
    found = stretched(found, times)
    every = plain_requests(found, 0)
    assume(every)
    plain = plain_variance(every)
    paths = path_times(found)
    measured = sample_variance(found, paths, 0, None)
    split, sites, groups = measured.whole.split, measured.whole.sites, measured.groups
    scale = plain.total + plain.mean**2
    assert close(split.total, plain.total, scale)
    assert close(float(split.roots.sum()), plain.roots, scale)
    assert close(float(split.paths.sum()), plain.paths, scale)
    names = [
        groups.roots[root] if category == NOWHERE else category
        for root, category in zip(groups.root.tolist(), groups.category.tolist(), strict=True)
    ]
    assert set(names) == set(plain.within)
    for name, within in zip(names, split.within.tolist(), strict=True):
        assert close(within, plain.within[name], scale)
    words = words_of(paths.names)["site"]
    for number, text in enumerate(words):
        expected = plain.sites.get(text, (Fraction(0),) * 3)
        got = (sites.roots[number], sites.paths[number], sites.within[number])
        assert all(close(float(a), b, scale) for a, b in zip(got, expected, strict=True)), text
    assert np.allclose(sites.within_blocks.sum(axis=1), sites.within, atol=1e-12)


@examples(15)
@given(POPULATIONS, st.integers(1, 6))
def test_shares_of_a_report_add_up_to_one(found: Population, times: int) -> None:
    found = stretched(found, times)
    assume(plain_requests(found, 0))
    one = found.of_samples(0, 1)
    result = variance_result(one, (), VarianceSettings(explained=0), ReportLimits(brief_edges=10_000))
    first = next(s for s in result.sections if isinstance(s, VarianceSection))
    details = next(s for s in result.sections if isinstance(s, VarianceDetailsSection))
    assume(first.sd_us > 0)
    assert sum(part.share for part in first.parts if part.root is None) == pytest.approx(1, abs=1e-9)
    assert sum(part.share for part in first.parts if part.root is not None) == pytest.approx(1, abs=1e-9)
    rows = result.tables["variance_sites"]
    assert sum(rows["total"].to_pylist()) == pytest.approx(1, abs=1e-9)
    within = next(part.share for part in first.parts if part.kind == "within" and part.root is None)
    assert sum(rows["within"].to_pylist()) == pytest.approx(within, abs=1e-9)
    assert sum(result.tables["variance_categories"]["impact"].to_pylist()) == pytest.approx(within, abs=1e-9)
    for detail in details.details:
        assert sum(edge.share for edge in detail.edges) == pytest.approx(1, abs=1e-9)


@examples(80)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(2, 25))
def test_edge_shares_are_those_of_rational_numbers(seed: int, n_parts: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    us = rng.lognormal(3, 2, (n_parts, n)) * (rng.random((n_parts, n)) < 0.8)
    weight = rng.choice([1.0, 2.5, 10.0], n)
    found = covariance_shares(us, weight)
    assume(found.variance > 0)
    expected = plain_shares(us, weight)
    assert found.share == pytest.approx([float(share) for share in expected], abs=1e-9)
    assert found.share.sum() == pytest.approx(1, abs=1e-9)
    assert found.share_winsorised.sum() == pytest.approx(1, abs=1e-9) or found.kept == 0


@examples(20)
@given(POPULATIONS, st.integers(2, 6), st.integers(0, 50))
def test_the_residual_is_the_account_of_what_has_no_marker(found: Population, times: int, pick: int) -> None:
    found = stretched(found, times)
    every = plain_requests(found, 0)
    assume(every)
    paths = path_times(found)
    words = words_of(paths.names)["site"]
    assume(words)
    label = site_name(pick % len(words), paths.names).text
    meant = [words[s] for s in range(len(words)) if site_name(s, paths.names).text == label]
    marker = Marker(label=_literal(label), kind=MarkerKind.INTRINSIC, owner="o", reason="r")
    rules = LabelRules((marker,), date(2026, 1, 1), paths.names)
    unmarked = unmarked_edges(found, paths, rules)
    assume(unmarked is not None)
    measured: SampleVariance = sample_variance(found, paths, 0, unmarked)
    assert measured.residual is not None
    left = [
        type(r)(r.root, r.category, r.weight, {s: y for s, y in r.sites.items() if s not in meant}, r.touched)
        for r in every
    ]
    plain = plain_variance(left)
    scale = plain.total + plain.mean**2
    assert close(measured.residual.split.total, plain.total, scale)
    for number, text in enumerate(words):
        expected = plain.sites.get(text, (Fraction(0),) * 3)
        assert close(float(measured.residual.sites.within[number]), expected[2], scale)


def _literal(label: str) -> str:
    """A pattern that means this text alone."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in label)


@examples(40)
@given(st.integers(1, 4), st.integers(2, 5), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_spread_over_all_orders_of_blocks_needs_no_order(
    parts: int, blocks: int, length: int, seed: int
) -> None:
    """Held against every order in turn."""
    cut = np.random.default_rng(seed).normal(0.3, 1, (parts, blocks, length))
    orders = list(permutations(range(blocks)))
    tried = sum((cut.reshape(parts, -1) @ cut[:, list(order)].reshape(parts, -1).T) ** 2 for order in orders)
    assert np.allclose(squares_over_orders(cut), tried / len(orders))


def test_pairs_of_independent_parts_are_rarely_called_correlated() -> None:
    """At most 10 % of 100 sets of 6 independent but sluggish series have any pair."""
    rng = np.random.default_rng(5)
    told = 0
    for _ in range(100):
        noise = rng.normal(size=(6, 400))
        series = np.empty_like(noise)
        series[:, 0] = noise[:, 0]
        for t in range(1, 400):
            series[:, t] = 0.6 * series[:, t - 1] + 0.8 * noise[:, t]
        us = np.exp(series)
        told += bool(correlated_pairs(us, np.ones(400), np.ones(6)))
    assert told <= 10
