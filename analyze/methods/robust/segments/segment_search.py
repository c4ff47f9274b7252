"""Find segments whose requests fail, or are slow, by more than the others, one after another.

The most significant attribute value comes first, narrowed by a second one if most of the excess has that,
too; among values with the same requests, the attribute with the fewest values is chosen. Its requests are
then removed and the rest is tested again, so that no segment is reported that another one explains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np

from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.segments.kept_history import KeptHistory
from analyze.methods.robust.segments.segment_tests import (
    SLOW,
    Compared,
    Counts,
    Outcome,
    alike_weight,
    chance_p,
    compared,
    compared_counts,
    counted,
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
"""Number of families of tests that share the error rate equally: all root types, one root type, pairs of
values."""
_NO_ROWS: Final = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Found:
    """Significant attribute segment, with its test."""

    values: tuple[AttributeValue, ...]
    """Attribute values that define the segment."""
    alike: tuple[AttributeValue, ...]
    """Further attribute values that almost the same requests have."""
    outcome: Outcome
    """Outcome whose rate increased."""
    rows: I8
    """Indices of the attribute segment's requests."""
    counts: Compared
    """Counts before (reference) and after; a single row."""
    p: float
    z: float
    q: float
    """p after Bonferroni's correction."""
    phi: float
    """Over-dispersion between time blocks."""


@dataclass(frozen=True, slots=True)
class _Test:
    """Test of an attribute value, or a pair of values, against the reference alone."""

    values: tuple[AttributeValue, ...]
    outcome: Outcome
    c: Compared
    """Counts of the tested segments."""
    at: int
    """Row of the tested segment in `c`."""
    p: float
    n_tests: float
    """Number of tests for which p is corrected."""
    changed: bool = False
    """True if p treats the baseline's rate of hits as known."""


class SegmentSearch:
    """Search for attribute segments among the values of a comparison's requests."""

    def __init__(
        self,
        population: Population,
        history: Population | None,
        kept: Sequence[SegmentSums],
        settings: RobustSettings,
    ) -> None:
        """Read the attributes of both periods; those of a history are read on demand.

        kept: counts of a history stored as statistics, one per block; empty for none.
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
        """Component of an outcome -> attribute -> weight, in hits, of the prior that its values have equal
        rates of hits."""

    def _wants(self, key: str) -> bool:
        return key not in self.without

    def _varying(self, values: Sequence[AttributeValue]) -> list[AttributeValue]:
        """Drop values that all requests have, and attributes that only failing requests have."""
        n = int((self.flat.sample <= PROBLEM).sum())
        fails = self.flat.origin >= 0
        by_key: dict[str, list[int]] = {}
        for at, value in enumerate(values):
            by_key.setdefault(value.key, []).append(at)
        of_failure = {key for key, mine in by_key.items() if all(fails[values[at].rows].all() for at in mine)}
        return [v for v in values if len(v.rows) < n and v.key not in of_failure]

    def outcomes(self) -> Iterator[Outcome]:
        """Yield the outcomes to test: failing at each component, slow; then the same by root type."""
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
        """Yield the outcomes restricted to one root type, for the pairs with most hits in the problem."""
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
                yield replace(outcome, inside=inside, of_root=True, stratum=mine, n_strata=len(groups))

    def found(self) -> Iterator[Found]:
        """Yield significant attribute segments, the most significant first, each found after removing the
        requests of earlier ones."""
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
        """Sample of each request, int64[requests]: REFERENCE or PROBLEM; -1 for the history."""
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
        """Test all values, and pairs of values if none is significant, for all outcomes as one family; return
        the most significant segment, or None.

        changed: `outcomes` lie within a segment known to have changed, so values are compared with the others
        as if the baseline's rate were known.
        """
        if not values:
            return None
        block = self._periods()
        rows = [value.rows for value in values]
        counts = []
        for outcome in outcomes:
            c = compared(rows, outcome, block, np.zeros(len(rows)))
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
        """Estimate for each attribute how equal the rates of hits of its values are; stored for the component
        of the outcome."""
        keys = sorted({value.key for value in values})
        weight = alike_weight(c, np.array([keys.index(value.key) for value in values]), self.own)
        self.alike[component] = dict(zip((value.key for value in values), weight.tolist(), strict=True))

    def _alike_of(self, values: Sequence[AttributeValue], outcome: Outcome) -> F8:
        """Weight, in hits, of the prior that a value has the same rate of hits as the others,
        float64[values]."""
        return np.array([self.alike[outcome.component][value.key] for value in values])

    def _may_count(self, chance: float, sure: float, n_tests: float) -> bool:
        """True if a test can still become significant when the history is read.

        chance: its p; sure: smallest p possible if the baseline's rate were known.
        """
        return bool(chance <= self.own.candidate_p and sure * n_tests <= self.settings.q)

    def _passing(self, tests: Sequence[_Test]) -> list[Found]:
        tests = sorted(tests, key=lambda t: t.p)[: self.own.most_candidates]
        known = self._in_history([value for test in tests for value in test.values])
        judged = [self._judged(test, known) for test in tests]
        return [f for f in judged if f.q <= self.settings.q and f.z >= self.settings.min_z]

    def _pairs(
        self,
        values: Sequence[AttributeValue],
        outcomes: Sequence[Outcome],
        p: Sequence[tuple[F8, F8]],
        block: I8,
        n_tests: float,
    ) -> Iterator[_Test]:
        """Yield tests of pairs among the values with the smallest p, corrected for all possible pairs."""
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
        """[pairs] indices of the requests that have both values of a pair, ascending."""
        marked: dict[tuple[str, str], B1] = {}
        found = []
        for pair in pairs:
            few, many = sorted(pair, key=lambda value: len(value.rows))
            if (many.key, many.value) not in marked:
                has = marked[many.key, many.value] = np.zeros(len(self.flat.row), dtype=np.bool_)
                has[many.rows] = True
            found.append(few.rows[marked[many.key, many.value][few.rows]])
        return found

    def _judged(self, test: _Test, known: Mapping[tuple[str, str], I8]) -> Found:
        """Repeat a test with the history; q by Bonferroni, as only the most significant of many tests are
        repeated."""
        has_all = np.ones(len(self.flat.row), dtype=np.bool_)
        for value in test.values:
            has = np.zeros(len(has_all), dtype=np.bool_)
            has[value.rows] = has[known.get((value.key, value.value), _NO_ROWS)] = True
            has_all &= has
        rows = np.flatnonzero(has_all)
        c = test.c.one(test.at)
        z, p, phi = self._with_history(rows, test, c.alike)
        alike = tuple(other for value in test.values for other in self.same.get((value.key, value.value), ()))
        q = min(p * test.n_tests, 1.0)
        return Found(test.values, alike, test.outcome, rows, c, p, z, q, phi)

    def _matters(self, c: Compared, outcome: Outcome) -> B1:
        """bool[segments]: True where the change of the segment, beyond the change of the other requests,
        exceeds the floors."""
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
        """Find the history's requests with attribute values: (attribute, value) -> their indices; missing
        ones are read, each once."""
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

    def _with_history(self, rows: I8, test: _Test, alike: F8) -> tuple[float, float, float]:
        """Test a segment against the whole baseline: (z, p, over-dispersion). rows: indices of its
        requests."""
        flat, outcome, p = self.flat, test.outcome, test.p
        kept = self._kept_counts(test)
        if kept is not None:
            here = counted([rows], self._by_root(outcome), self._periods(), 2)
            before, ordinary = _with_blocks(here, kept)
            p = self._chance(compared_counts(before, alike), test)
            periods = [ordinary]
        elif self.history is not None:
            everything = np.where(flat.sample == PROBLEM, 1, 0)
            p = self._chance(compared([rows], outcome, everything, alike), test)
            block = np.where(flat.sample == PROBLEM, -1, np.maximum(flat.sample - PROBLEM, 0))
            periods = [counted([rows], outcome, block, int(block.max()) + 1)]
        else:
            blocks = [_time_blocks(flat, sample, self.own.blocks) for sample in (REFERENCE, PROBLEM)]
            periods = [counted([rows], outcome, block, self.own.blocks) for block in blocks]
        phi = dispersion(periods, self.own)
        wide, z = widened(np.array([p]), np.array([phi]))
        return float(z[0]), float(wide[0]), phi

    def _chance(self, c: Compared, test: _Test) -> float:
        p = float(chance_p(c, self.own)[test.changed][0])
        return 1.0 if np.isnan(p) else p

    def _kept_counts(self, test: _Test) -> Counts | None:
        """Counts in a history stored as statistics; None if there is none, for a pair of values, or within a
        segment, as statistics do not have these."""
        if self.kept is None or len(test.values) > 1 or test.changed:
            return None
        (value,) = test.values
        return self.kept.counts(value.key, value.value, test.outcome.component)

    def _by_root(self, outcome: Outcome) -> Outcome:
        """Outcome with root types as strata, as stored counts have them."""
        root = self.flat.root[self.flat.category]
        return replace(outcome, stratum=root, n_strata=len(self.flat.roots))


def _with_blocks(here: Counts, kept: Counts) -> tuple[Counts, Counts]:
    """Add the history's counts to those of the comparison, in strata of `here` (two blocks: reference and
    problem).

    Returns (reference and history pooled, against the problem; reference and history as separate blocks).
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
    """bool[values]: True for values to test: the most frequent ones of attributes that do not identify a
    request.

    n_requests: number of requests with attributes.
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
    """Keep one of several values with identical requests: the value of the attribute with the fewest values.

    Also returns the dropped ones: kept (attribute, value) -> the others with the same requests.
    """
    groups: dict[bytes, list[AttributeValue]] = {}
    for value in sorted(values, key=lambda v: (v.distinct, v.key)):
        groups.setdefault(value.rows.tobytes(), []).append(value)
    kept = [group[0] for group in groups.values()]
    return kept, {(group[0].key, group[0].value): tuple(group[1:]) for group in groups.values()}


def _time_blocks(flat: FlatRequests, sample: int, n: int) -> I8:
    """Number of the block of equal time within a sample, int64[requests]; -1 for requests of other
    samples."""
    blocks = np.full(len(flat.row), -1, dtype=np.int64)
    mine = np.flatnonzero(flat.sample == sample)
    start = flat.start_ns[mine]
    span = max(int(start.max() - start.min()) + 1, 1)
    blocks[mine] = (start - start.min()) * n // span
    return blocks


def excess(c: Compared) -> float:
    """Number of hits in the problem beyond the expected ones, for the only segment in `c`."""
    return float(c.x[0, 1] - c.expected[0])
