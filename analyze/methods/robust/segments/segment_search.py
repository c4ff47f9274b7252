"""Search for attribute segments whose requests fail, or are slow, by more than the other requests.

The most significant attribute value is found first. It is narrowed by a second value if requests with both
values have most of the excess. Among values that almost the same requests have, the attribute with the fewest
distinct values is chosen. Then the segment's requests are removed and the search is repeated, so that no
segment is reported whose change an earlier one explains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np

from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.segments.kept_history import KeptHistory
from analyze.methods.robust.segments.segment_tests import (
    SLOW,
    Cells,
    Compared,
    Counts,
    Outcome,
    alike_weight,
    chance_p,
    compared,
    compared_counts,
    compared_each,
    dispersion,
    widened,
)
from analyze.methods.robust.settings import RobustSettings, SegmentSettings
from analyze.population import Population
from analyze.profile.attribute_values import AttributeValue, ValueCounts, attribute_values
from analyze.profile.flat_requests import FlatRequests, flat_requests
from analyze.profile.segment_sums import SegmentSums
from schemas.arrays import B1, F8, I8

_FAMILIES: Final = 3
"""Number of test families that share the error rate equally: values over all root types, values within one
root type, pairs of values."""
_NO_ROWS: Final = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Found:
    """Significant attribute segment and its test result."""

    values: tuple[AttributeValue, ...]
    """Attribute values, one or two, that define the segment."""
    alike: tuple[AttributeValue, ...]
    """Attribute values, not in `values`, that almost the same requests have."""
    outcome: Outcome
    """Outcome (failing at a component, or slow) whose rate rose in the segment."""
    rows: I8
    """Indices of the segment's requests, ascending, in both periods and the history."""
    counts: Compared
    """Counts of the segment and of the other requests in reference and problem; arrays with a single row."""
    p: float
    z: float
    q: float
    """`p` times the number of tests (Bonferroni), at most 1."""
    phi: float
    """Over-dispersion of the segment's share of the hits between time blocks, at least 1; `z` is divided by
    its root."""


@dataclass(frozen=True, slots=True)
class _Test:
    """Test of one attribute value, or of a pair of values, with the reference as the only baseline."""

    values: tuple[AttributeValue, ...]
    outcome: Outcome
    c: Compared
    """Counts of all segments tested for the outcome together, one per row."""
    at: int
    """Row of `c` that belongs to this test's segment."""
    p: float
    n_tests: float
    """Number of tests by which p is multiplied (Bonferroni)."""
    changed: bool = False
    """True if p treats the baseline's rate of failing (or slow) requests as known exactly, because the test
    runs within a segment that changed."""


class SegmentSearch:
    """Search for attribute segments among all attribute values of a comparison's requests."""

    def __init__(
        self,
        population: Population,
        history: Population | None,
        kept: Sequence[SegmentSums],
        settings: RobustSettings,
    ) -> None:
        """Read the attributes of reference and problem; attributes of the history are read when a test needs
        them.

        kept: stored counts of the history, one element per block; empty if the history is not stored as
        statistics.
        """
        self.population, self.history, self.settings = population, history, settings
        self.own = settings.segments
        self.flat = flat_requests(population, history)
        self.kept = KeptHistory(kept, self.flat) if kept else None
        self.without = {*settings.exclude, *settings.failure_attributes}
        tables = [population.params(s, as_codes=True) for s in (REFERENCE, PROBLEM)]
        n = sum(category.n_requests for category in population.categories)
        found = attribute_values(tables, self.flat.ids, self._wants, lambda each: _tested(each, n, self.own))
        every = self._varying(found)
        self.values, self.same = _distinct(every)
        self.read: dict[tuple[str, str], I8] = {}
        self.alike: dict[int, dict[str, float]] = {}
        """Component of an outcome -> name of an attribute -> weight, in hits, of the prior that all values of
        the attribute have the same hit rate."""

    def _wants(self, key: str) -> bool:
        return key not in self.without

    def _varying(self, values: Sequence[AttributeValue]) -> list[AttributeValue]:
        """Drop values that all requests of both periods have, and attributes that only failing requests
        have."""
        n = int((self.flat.sample <= PROBLEM).sum())
        fails = self.flat.origin >= 0
        by_key: dict[str, list[int]] = {}
        for at, value in enumerate(values):
            by_key.setdefault(value.key, []).append(at)
        of_failure = {key for key, mine in by_key.items() if all(fails[values[at].rows].all() for at in mine)}
        return [v for v in values if len(v.rows) < n and v.key not in of_failure]

    def outcomes(self) -> Iterator[Outcome]:
        """Yield the outcomes to test: failing at a component, for each component with enough failures, and
        slow; then each of these outcomes restricted to a root type."""
        flat = self.flat
        now = flat.origin[(flat.sample == PROBLEM) & (flat.origin >= 0)]
        times = np.bincount(now, minlength=len(flat.components))
        order = np.argsort(-times, kind="stable")[: self.own.most_components]
        root, n_roots = flat.root[flat.category], int(flat.root.max()) + 1
        whole = [
            Outcome(
                component,
                False,
                flat.passes[flat.category, component],
                flat.origin == component,
                root,
                n_roots,
            )
            for component in order[times[order] >= self.own.least_hits].tolist()
        ]
        slow = flat.response_ns > flat.limit_ns(self.own.slow, self.own.slow_requests)
        everywhere = np.ones(len(slow), dtype=np.bool_)
        whole.append(Outcome(SLOW, False, everywhere, slow, flat.category, len(flat.root)))
        yield from whole
        if n_roots > 1:
            yield from self._of_roots(whole, root, n_roots)

    def _of_roots(self, whole: Sequence[Outcome], root: I8, n_roots: int) -> Iterator[Outcome]:
        """Yield the outcomes `whole` restricted to one root type, for the (outcome, root type) pairs with
        most hits in the problem.

        root: int64[requests] root type of each request.
        """
        now = self.flat.sample == PROBLEM
        hits = [np.bincount(root[now & o.inside & o.hit], minlength=n_roots) for o in whole]
        flat = np.concatenate(hits)
        order = np.argsort(-flat, kind="stable")[: self.own.most_roots]
        for at in order[flat[order] >= self.own.least_hits].tolist():
            outcome, of = whole[at // n_roots], at % n_roots
            if hits[at // n_roots].sum() > flat[at]:
                inside = outcome.inside & (root == of)
                groups, stratum = np.unique(outcome.stratum[inside], return_inverse=True)
                mine = np.zeros(len(root), dtype=np.int64)
                mine[inside] = stratum
                yield Outcome(outcome.component, True, inside, outcome.hit, mine, len(groups), groups)

    def found(self) -> Iterator[Found]:
        """Yield significant attribute segments, at most `most`. After each one, its requests are removed and
        the search is repeated."""
        if not self.values:
            return
        outcomes = list(self.outcomes())
        for _ in range(self.own.most):
            best = self._best(outcomes)
            if best is None:
                return
            yield best
            gone = np.zeros(len(self.flat.row), dtype=np.bool_)
            gone[best.rows] = True
            # Requests of the history are removed, too, so that the remaining ones are compared with their
            # like. A request still counts for failures at other components, but not for slowness, which its
            # failure may explain.
            outcomes = [
                replace(o, inside=o.inside & ~gone) if o.component in (best.outcome.component, SLOW) else o
                for o in outcomes
            ]

    def _periods(self) -> I8:
        """Period of each request, int64[requests]: REFERENCE, PROBLEM, or -1 for requests of the history."""
        return np.where(self.flat.sample <= PROBLEM, self.flat.sample, -1)

    def _best(self, outcomes: Sequence[Outcome]) -> Found | None:
        found = self._tested(self.values, outcomes)
        if found is None:
            return None
        within = np.zeros(len(self.flat.row), dtype=np.bool_)
        within[found.rows] = True
        keys = {value.key for value in found.values}
        others = [value for value in self.values if value.key not in keys]
        whole = excess(found.counts)
        # The segment is known to have changed; the second value is searched for within it.
        inside = replace(found.outcome, inside=found.outcome.inside & within)
        second = self._tested(others, [inside], changed=True)
        if second is not None and excess(second.counts) >= self.own.within * whole:
            p, z, q = min(found.p, second.p), max(found.z, second.z), min(found.q, second.q)
            both = (*found.values, *second.values)
            return replace(second, values=both, p=p, z=z, q=q, outcome=found.outcome)
        return found

    def _tested(
        self, values: Sequence[AttributeValue], outcomes: Sequence[Outcome], *, changed: bool = False
    ) -> Found | None:
        """Test all `values` for all `outcomes` as one family, and pairs of values if no single value is
        significant; return the most significant segment, or None.

        changed: True if `outcomes` are restricted to a segment that is known to have changed; the baseline's
        hit rate is then treated as known exactly, and pairs are not tested.
        """
        if not values:
            return None
        block = self._periods()
        rows = [value.rows for value in values]
        each = {
            component: iter(compared_each(rows, [o for o in outcomes if o.component == component], block))
            for component in {outcome.component for outcome in outcomes}
        }
        counts = []
        for outcome in outcomes:
            c = next(each[outcome.component])
            if outcome.component not in self.alike:  # first call: all requests that could have it
                self._learn(outcome.component, values, c)
            counts.append(replace(c, alike=self._alike_of(values, outcome)))
        p = [chance_p(c, self.own) for c in counts]
        if changed:
            p = [(sure, sure) for _, sure in p]
        n_tests = {
            of_root: _FAMILIES
            * sum(
                int((~np.isnan(chance)).sum())
                for outcome, (chance, _) in zip(outcomes, p, strict=True)
                if outcome.of_root == of_root
            )
            for of_root in (False, True)
        }
        tests = [
            _Test((value,), outcome, c, at, float(chance[at]), n_tests[outcome.of_root], changed)
            for outcome, c, (chance, sure) in zip(outcomes, counts, p, strict=True)
            for at, value in enumerate(values)
            if self._may_count(chance[at], sure[at], n_tests[outcome.of_root])
            and self._matters(c, outcome)[at]
        ]
        passing = self._passing(tests)
        if not passing and not changed:
            passing = self._passing(list(self._pairs(values, outcomes, p, block, n_tests[False])))
        if not passing:
            return None
        best = max(passing, key=lambda f: (f.z, excess(f.counts), -len(f.values)))
        same = [f for f in passing if f.outcome is best.outcome and self._alike(f, best)]
        same.sort(key=lambda f: (len(f.values), *((v.distinct, v.key) for v in f.values)))
        singles = tuple(f.values[0] for f in same[1:] if len(f.values) == 1)
        return replace(same[0], alike=(*same[0].alike, *singles))

    def _learn(self, component: int, values: Sequence[AttributeValue], c: Compared) -> None:
        """Estimate for each attribute how similar the hit rates of its values are, and store it in
        `self.alike` under the outcome's `component`."""
        keys = sorted({value.key for value in values})
        weight = alike_weight(c, np.array([keys.index(value.key) for value in values]), self.own)
        self.alike[component] = dict(zip((value.key for value in values), weight.tolist(), strict=True))

    def _alike_of(self, values: Sequence[AttributeValue], outcome: Outcome) -> F8:
        """Weight, in hits, of the prior that each value's hit rate equals the rate of the other requests,
        float64[values]."""
        return np.array([self.alike[outcome.component][value.key] for value in values])

    def _may_count(self, chance: float, sure: float, n_tests: float) -> bool:
        """True if a test can still become significant when the history is added to the baseline.

        chance: p of the test; sure: smallest possible p, if the baseline's hit rate were known exactly.
        """
        return bool(chance <= self.own.candidate_p and sure * n_tests <= self.settings.q)

    def _passing(self, tests: Sequence[_Test]) -> list[Found]:
        tests = sorted(tests, key=lambda t: t.p)[: self.own.most_candidates]
        known = self._in_history([value for test in tests for value in test.values])
        judged: dict[int, Found] = {}
        for outcome in dict.fromkeys(test.outcome for test in tests):
            ordinary = [Cells(outcome, *block) for block in self._ordinary]
            mine = [at for at, test in enumerate(tests) if test.outcome is outcome]
            judged |= {at: self._judged(tests[at], known, ordinary) for at in mine}
        found = [judged[at] for at in range(len(tests))]
        return [f for f in found if f.q <= self.settings.q and f.z >= self.settings.min_z]

    @cached_property
    def _ordinary(self) -> list[tuple[I8, int]]:
        """Time blocks between which a segment's share of the hits varies ordinarily: (int64[requests] block
        of each request, -1 for none; number of blocks), of the baseline with its history or, without one, of
        each period."""
        flat, n = self.flat, self.own.blocks
        if self.history is None:
            return [(_time_blocks(flat, sample, n), n) for sample in (REFERENCE, PROBLEM)]
        block = np.where(flat.sample == PROBLEM, -1, np.maximum(flat.sample - PROBLEM, 0))
        return [(block, int(block.max()) + 1)]

    def _pairs(
        self,
        values: Sequence[AttributeValue],
        outcomes: Sequence[Outcome],
        p: Sequence[tuple[F8, F8]],
        block: I8,
        n_tests: float,
    ) -> Iterator[_Test]:
        """Yield a test of each pair among the `paired` values with the smallest p, for each outcome that
        covers all root types; pairs that cannot become significant are skipped.

        p: for each outcome (float64[values] p, float64[values] smallest possible p); block: int64[requests]
        period, -1 for the history; n_tests: number of tests of single values. p of a pair is corrected for
        all possible pairs.
        """
        n_pairs = n_tests * len(values) / 2
        for outcome, (mine, _) in zip(outcomes, p, strict=True):
            if outcome.of_root:
                continue
            surest = np.argsort(np.where(np.isnan(mine), 2.0, mine), kind="stable")[: self.own.paired]
            two = [
                (values[one], values[other])
                for one, other in combinations(surest[mine[surest] < 1].tolist(), 2)
                if values[one].key != values[other].key
            ]
            if not two:
                continue
            rows = self._rows_of_both(two)
            singles = [self._alike_of(side, outcome) for side in zip(*two, strict=True)]
            c = compared(rows, outcome, block, 1 / np.sum([1 / alike for alike in singles], axis=0))
            matters, (chance, sure) = self._matters(c, outcome), chance_p(c, self.own)
            for at, pair in enumerate(two):
                if matters[at] and self._may_count(chance[at], sure[at], n_pairs):
                    yield _Test(pair, outcome, c, at, float(chance[at]), n_pairs)

    def _rows_of_both(self, pairs: Sequence[tuple[AttributeValue, AttributeValue]]) -> list[I8]:
        """Indices of the requests that have both values, ascending, one array per pair."""
        marked: dict[tuple[str, str], B1] = {}
        found = []
        for pair in pairs:
            few, many = sorted(pair, key=lambda value: len(value.rows))
            if (many.key, many.value) not in marked:
                has = marked[many.key, many.value] = np.zeros(len(self.flat.row), dtype=np.bool_)
                has[many.rows] = True
            found.append(few.rows[marked[many.key, many.value][few.rows]])
        return found

    def _judged(self, test: _Test, known: Mapping[tuple[str, str], I8], ordinary: Sequence[Cells]) -> Found:
        """Repeat a test with the history added to the baseline. Its q is corrected by Bonferroni, since only
        the most significant of many tests are repeated.

        known: (attribute, value) -> indices of the history's requests with that value. ordinary: cells of
        the outcome's requests by `_ordinary` blocks.
        """
        has_all = np.ones(len(self.flat.row), dtype=np.bool_)
        for value in test.values:
            has = np.zeros(len(has_all), dtype=np.bool_)
            has[value.rows] = has[known.get((value.key, value.value), _NO_ROWS)] = True
            has_all &= has
        rows = np.flatnonzero(has_all)
        c = test.c.one(test.at)
        z, p, phi = self._with_history(rows, test, c.alike, ordinary)
        alike = tuple(other for value in test.values for other in self.same.get((value.key, value.value), ()))
        q = min(p * test.n_tests, 1.0)
        return Found(test.values, alike, test.outcome, rows, c, p, z, q, phi)

    def _matters(self, c: Compared, outcome: Outcome) -> B1:
        """bool[segments]: True where the hit rate of a segment rose by more than the thresholds in the
        settings, beyond its expected rate in the problem."""
        own, (before, after) = self.own, c.share.T
        usual = np.maximum(before, c.expected / np.maximum(c.n[:, 1], 1e-300))
        if outcome.component == SLOW:
            # Without requests before, a segment's usual duration is unknown.
            return np.asarray((c.n[:, 0] > 0) & (after - usual >= own.slow_floor))
        return np.asarray((after - usual >= own.failed_floor) & (after >= own.failed_times * usual))

    def _alike(self, one: Found, other: Found) -> bool:
        inside = one.outcome.inside
        mine, theirs = (f.rows[inside[f.rows]] for f in (one, other))
        common = len(np.intersect1d(mine, theirs, assume_unique=True))
        return common >= self.own.same * (len(mine) + len(theirs) - common)

    def _in_history(self, values: Sequence[AttributeValue]) -> dict[tuple[str, str], I8]:
        """Indices of the history's requests with each attribute value: (attribute, value) -> int64[requests].
        Values not read before are read from the lake."""
        wanted = {(value.key, value.value) for value in values} - set(self.read)
        if self.history is not None and wanted:
            keys = sorted({key for key, _ in wanted})
            tables = [
                self.history.params(sample, keys=keys, as_codes=True)
                for sample in range(len(self.history.samples))
            ]
            found = attribute_values(tables, self.flat.ids, self._wants, lambda counts: counts.among(wanted))
            old = self.flat.sample > PROBLEM
            self.read |= dict.fromkeys(wanted, np.zeros(0, np.int64))
            self.read |= {(v.key, v.value): v.rows[old[v.rows]] for v in found}
        return self.read

    def _with_history(
        self, rows: I8, test: _Test, alike: F8, ordinary: Sequence[Cells]
    ) -> tuple[float, float, float]:
        """Test if a segment's hit rate (share of failing or slow requests) rose in the problem, compared with
        reference and history together: (z, p, over-dispersion).

        rows: indices of the segment's requests. alike: float64[1] weight, as a number of hits, of the prior
        that the segment had the hit rate of the other requests before. ordinary: see `_judged`.
        """
        outcome, p = test.outcome, test.p
        kept = self._kept_counts(test)
        if kept is not None:
            here = Cells(self._by_root(outcome), self._periods(), 2).counts([rows])
            before, blocks = _with_blocks(here, kept)
            p = self._chance(compared_counts(before, alike), test)
            periods = [blocks]
        else:
            periods = [cells.counts([rows]) for cells in ordinary]
        if kept is None and self.history is not None:
            everything = np.where(self.flat.sample == PROBLEM, 1, 0)
            p = self._chance(compared([rows], outcome, everything, alike), test)
        phi = dispersion(periods, self.own)
        wide, z = widened(np.array([p]), np.array([phi]))
        return float(z[0]), float(wide[0]), phi

    def _chance(self, c: Compared, test: _Test) -> float:
        p = float(chance_p(c, self.own)[test.changed][0])
        return 1.0 if np.isnan(p) else p

    def _kept_counts(self, test: _Test) -> Counts | None:
        """Stored counts of the test's segment in the history. None if the history is not stored as
        statistics, or for a pair of values or a test within a segment, since only single values are stored.
        """
        if self.kept is None or len(test.values) > 1 or test.changed:
            return None
        (value,) = test.values
        return self.kept.counts(value.key, value.value, test.outcome.component)

    def _by_root(self, outcome: Outcome) -> Outcome:
        """Copy of the outcome with root types as strata, like the stored counts."""
        root = self.flat.root[self.flat.category]
        return replace(outcome, stratum=root, n_strata=len(self.flat.roots))


def _with_blocks(here: Counts, kept: Counts) -> tuple[Counts, Counts]:
    """Add the stored counts of the history to `here`, the counts of reference and problem as two blocks.

    Returns (two blocks: reference and history summed, then the problem; baseline blocks: the reference, then
    each block of the history). Strata without requests in `here` are left out of the history.
    """
    tested = here.n_all.any(axis=0)
    before, blocks = [], []
    for mine, theirs in zip(here, kept, strict=True):
        other = theirs * tested
        reference, problem = mine[..., :1, :], mine[..., 1:, :]
        before.append(np.concatenate([reference + other.sum(axis=-2, keepdims=True), problem], axis=-2))
        blocks.append(np.concatenate([reference, other], axis=-2))
    return Counts(*before), Counts(*blocks)


def _tested(counts: ValueCounts, n_requests: int, settings: SegmentSettings) -> B1:
    """bool[values]: True for attribute values to test: the most frequent values of each attribute, except
    attributes that have about as many values as there are requests (ids).

    n_requests: number of requests of both periods.
    """
    key, times, distinct = counts.key, counts.times, counts.distinct
    order = np.lexsort((-times, key))
    first = np.searchsorted(key[order], np.arange(len(distinct)))
    rank = np.empty(len(key), dtype=np.int64)
    rank[order] = np.arange(len(key)) - first[key[order]]
    most = np.maximum(n_requests * settings.identifies, settings.few_values)
    return np.asarray(
        (distinct[key] <= most) & (rank < settings.most_values) & (times >= settings.least_requests)
    )


def _distinct(
    values: Sequence[AttributeValue],
) -> tuple[list[AttributeValue], dict[tuple[str, str], tuple[AttributeValue, ...]]]:
    """Merge values that exactly the same requests have: keep the value of the attribute with the fewest
    values.

    Returns (kept values; (attribute, value) of a kept value -> dropped values with the same requests).
    """
    groups: dict[bytes, list[AttributeValue]] = {}
    for value in sorted(values, key=lambda v: (v.distinct, v.key)):
        groups.setdefault(value.rows.tobytes(), []).append(value)
    kept = [group[0] for group in groups.values()]
    return kept, {(group[0].key, group[0].value): tuple(group[1:]) for group in groups.values()}


def _time_blocks(flat: FlatRequests, sample: int, n: int) -> I8:
    """Index of the time block in which each request of `sample` starts, int64[requests], 0 to n - 1; blocks
    divide the sample's time into n equal intervals. -1 for requests of other samples."""
    blocks = np.full(len(flat.row), -1, dtype=np.int64)
    mine = np.flatnonzero(flat.sample == sample)
    start = flat.start_ns[mine]
    span = max(int(start.max() - start.min()) + 1, 1)
    blocks[mine] = (start - start.min()) * n // span
    return blocks


def excess(c: Compared) -> float:
    """Number of hits in the problem above the expected number, for a `c` with one segment."""
    return float(c.x[0, 1] - c.expected[0])
