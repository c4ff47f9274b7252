"""Turn attribute segments into changes: the call sites at which their requests fail or got slower, and by how
much."""

from __future__ import annotations

from typing import Final

import numpy as np

from analyze.cache_blocks import FEW_CELLS
from analyze.methods.robust.changes import Change
from analyze.methods.robust.comparison import Comparison
from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.segments.segment import Segment
from analyze.methods.robust.segments.segment_search import Found, SegmentSearch, excess
from analyze.methods.robust.segments.segment_tests import SLOW
from analyze.profile.batches import batches, requests_of
from analyze.profile.build import Profiled
from analyze.profile.times import call_times
from schemas.arrays import B1, I8
from schemas.report.findings import ChangeKind

SEGMENTS: Final = "segments"
"""Name of the rule that searches for attribute segments; listing it in the setting `without` disables the
search."""
_Z_95: Final = 1.96
_NO_ROWS: Final = np.zeros(0, dtype=np.int64)


def segment_changes(comparison: Comparison, profiled: Profiled) -> tuple[Change, ...]:
    """Find attribute segments and return one change per segment, with the call sites that show it; empty if
    there are no requests, or the search is disabled."""
    settings = comparison.settings
    if not profiled.groups or not settings.segments.most or SEGMENTS in settings.without:
        return ()
    search = SegmentSearch(comparison.population, comparison.history, comparison.kept_segments, settings)
    changes = []
    for found in search.found():
        at = _Places(search, profiled, found)
        change = at.slower() if found.outcome.component == SLOW else at.failing()
        if change is not None:
            changes.append(change)
    return tuple(changes)


class _Places:
    """Call sites that show the change of one attribute segment."""

    def __init__(self, search: SegmentSearch, profiled: Profiled, found: Found) -> None:
        self.search, self.profiled, self.found = search, profiled, found
        self.names = profiled.profile.names
        flat, outcome = search.flat, found.outcome
        first: list[int] = []
        at = 0
        for category in search.population.categories:
            first.append(at)
            at += category.n_requests
        self.first = first
        inside = np.zeros(len(flat.row), dtype=np.bool_)
        inside[found.rows] = True
        self.inside = inside & outcome.inside
        self.n_problem = max(int((flat.sample == PROBLEM).sum()), 1)

    def _rows(self, marked: B1) -> dict[int, I8]:
        """Convert a mask of requests, bool[requests], to row indices per category: index of the category ->
        int64[rows]."""
        found = {}
        for number, category in enumerate(self.search.population.categories):
            mine = marked[self.first[number] : self.first[number] + category.n_requests]
            if mine.any():
                found[number] = np.flatnonzero(mine)
        return found

    def _segment(self, sites: tuple[int, ...], elsewhere: float) -> Segment:
        found, hit = self.found, self.found.outcome.hit
        operations = {self.names.sites[site].operation for site in sites}
        return Segment(
            tuple((v.key, v.value) for v in found.values),
            tuple((v.key, v.value) for v in found.alike),
            self._rows(self.inside),
            self._rows(self.inside & hit),
            sites,
            len(operations),
            elsewhere,
        )

    def failing(self) -> Change | None:
        """Change (errors) of a segment that fails, at the call sites where significantly more failures begin
        in the problem than the reference predicts.

        The site with the largest excess comes first. None if no request of the segment fails in the problem.
        """
        flat, found, c = self.search.flat, self.found, self.found.counts
        # [sites, reference or problem]
        failures = np.zeros((len(self.names.sites), 2))
        for side, sample in enumerate((REFERENCE, PROBLEM)):
            rows = self._rows(self.inside & found.outcome.hit & (flat.sample == sample))
            for group in self.profiled.groups:
                mine: I8 = np.intersect1d(rows.get(group.category, _NO_ROWS), group.rows)
                position = flat.origin_position[self.first[group.category] + mine]
                np.add.at(failures[:, side], group.sites.site_at(position.astype(np.int32)), 1.0)
        if not failures[:, 1].any():
            return None
        expected = failures[:, 0] * c.n[0, 1] / max(c.n[0, 0], 1.0)
        more = failures[:, 1] - expected
        beyond_chance = more > _Z_95 * np.sqrt(found.phi * (expected + 1.0))
        order = sorted(np.flatnonzero(failures[:, 1]).tolist(), key=lambda site: (-more[site], site))
        sites = (order[0], *(site for site in order[1:] if beyond_chance[site]))
        (x0, x1), (n0, n1), (before, after) = c.x[0], c.n[0], c.share[0]
        error = np.sqrt(found.phi * ((x0 + 0.5) / max(n0, n1 / 10) ** 2 + x1 / n1**2))
        beyond = excess(c)
        others = (c.y[0, 1] / max(c.f[0, 1], 1e-300) - c.y[0, 0] / max(c.f[0, 0], 1e-300)) * (
            found.outcome.hit[found.outcome.inside].mean()
        )
        return self._change(
            ChangeKind.ERRORS,
            sites,
            (float(before), float(after), float(error)),
            elsewhere=float(others),
            weight=beyond / self.n_problem,
        )

    def slower(self) -> Change | None:
        """Change (slower) of a segment that is slow, at the call sites of the component whose own time rose
        most in the segment; None if the rise, less the rise of the other requests, is below `time_floor`."""
        component, sites, gain, (before, after, error), others = self._own_times()
        settings = self.search.settings
        if component is None or after - before - others < settings.time_floor * max(before, 1.0):
            return None
        return self._change(
            ChangeKind.SLOWER,
            sites,
            (before / 1e3, after / 1e3, error / 1e3),
            elsewhere=others / 1e3,
            contribution_ns=gain / self.n_problem,
        )

    def _own_times(
        self,
    ) -> tuple[str | None, tuple[int, ...], float, tuple[float, float, float], float]:
        """Find the component whose own time rose most in the segment, beyond the rise of the other requests.

        Returns (component, indices of its call sites that rose, excess ns summed over the problem, (ns per
        visit in the reference, in the problem, standard error of the difference), ns per visit by which the
        other requests rose); component is None if no site rose.
        """
        flat, n_sites = self.search.flat, len(self.names.sites)
        population, (_, groups, own_ns) = self.search.population, self.profiled
        place = [self.first[group.category] + group.rows for group in groups]
        at_site = np.concatenate([group.sites.site for group in groups])
        n_of = [np.bincount(flat.sample[mine], minlength=2) for mine in place]
        every = np.zeros((2, n_sites, 2))  # visits, ns
        np.add.at(every[0], at_site, np.repeat(n_of, [group.sites.n_units for group in groups], axis=0))
        np.add.at(every[1], at_site, own_ns)
        parts = [
            group._replace(rows=group.rows[inside], slot=flat.sample[mine[inside]])
            for group, mine in zip(groups, place, strict=True)
            if (inside := self.inside[mine]).any()
        ]
        within = np.zeros((3, n_sites, 2))  # visits, ns, squares of ns
        for batch in batches(population, parts, requests_of(population, parts), FEW_CELLS):
            own, n_units = call_times(batch).own.astype(np.float64), len(batch.site)
            of_unit = batch.unit.spread(np.arange(n_units) * 2)
            of_unit += batch.requests.slot[batch.unit.at(batch.first_request[batch.unit_group])]
            for of_site, value in zip(within, (None, own, own**2), strict=True):
                of_units = np.bincount(of_unit, value, 2 * n_units)
                np.add.at(of_site, batch.site, of_units.reshape(n_units, 2))
        # [sites, in the segment or not, before or after]
        visits, totals = np.stack((within[:2], every - within[:2]), axis=2)
        squares = within[2]
        mean = totals / np.maximum(visits, 1.0)
        known = (visits[:, 0] > 0).all(axis=1)
        rest = np.where((visits[:, 1] > 0).all(axis=1), mean[:, 1, 1] - mean[:, 1, 0], 0.0)
        gain = np.where(known, (mean[:, 0, 1] - mean[:, 0, 0] - rest) * visits[:, 0, 1], 0.0)
        components = [self.names.operation(site).component for site in range(n_sites)]
        by_component: dict[str, float] = {}
        for site in np.flatnonzero(gain).tolist():
            by_component[components[site]] = by_component.get(components[site], 0.0) + float(gain[site])
        if not by_component:
            return None, (), 0.0, (0.0, 0.0, 0.0), 0.0
        best = max(by_component, key=lambda name: (by_component[name], name))
        floor = self.search.settings.time_floor
        sites = [
            site
            for site in np.flatnonzero(known).tolist()
            if components[site] == best and gain[site] >= floor * mean[site, 0, 0] * visits[site, 0, 1] > 0
        ]
        if not sites:
            return None, (), 0.0, (0.0, 0.0, 0.0), 0.0
        sites.sort(key=lambda site: (-gain[site], site))
        n = visits[sites, 0, 1]
        before, after = (float((mean[sites, 0, side] * n).sum() / n.sum()) for side in (0, 1))
        spread = squares[sites] / np.maximum(visits[sites, 0], 1.0) - mean[sites, 0] ** 2
        error = np.sqrt((np.maximum(spread, 0.0) / np.maximum(visits[sites, 0], 1.0)).sum(axis=1) @ n**2)
        others = float((rest[sites] * n).sum() / n.sum())
        return best, tuple(sites), float(gain[sites].sum()), (before, after, float(error / n.sum())), others

    def _change(
        self,
        kind: ChangeKind,
        sites: tuple[int, ...],
        value: tuple[float, float, float],
        *,
        elsewhere: float,
        weight: float = 0.0,
        contribution_ns: float = 0.0,
    ) -> Change:
        before, after, error = value
        found = self.found
        return Change(
            kind=kind,
            site=sites[0],
            p=found.p,
            z=found.z,
            unit="share" if kind is ChangeKind.ERRORS else "us",
            before=before,
            after=after,
            low=after - before - _Z_95 * error,
            high=after - before + _Z_95 * error,
            n0=int(found.counts.n[0, 0]),
            n1=int(found.counts.n[0, 1]),
            contribution_ns=contribution_ns,
            weight=weight,
            q=found.q,
            noise_p=found.p,
            segment=self._segment(sites, elsewhere),
        )
