"""What is drawn with a finding: its values before and after, and the changed step in its context."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyze.methods.robust.causes.cause import Cause
from analyze.methods.robust.changes import PATH_KINDS, TIME_KINDS, Change
from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.site_requests import AtSite, values_of
from analyze.paths.critical_path import attribute
from analyze.profile.names import Names
from analyze.report.drawing.accounts import structural_account, timing_account
from analyze.report.limits import ReportLimits
from analyze.stats.histograms import log_histogram
from schemas.report.parts import Histogram, StepAccount

_STEPS = 200
"""Of a request: what is longer is cut by the drawing, with a word."""


def histogram_of(at: Sequence[AtSite], lead: Change, names: Names, limits: ReportLimits) -> Histogram | None:
    """Own time of the site's calls a request, before and after; None where the site has no time."""
    before, after = values_of(at, REFERENCE), values_of(at, PROBLEM)
    if not before.any() and not after.any():
        return None
    name = names.operation(lead.site)
    return log_histogram(f"{name.component}/{name.point}", before, after, limits.bins)


def step_account(run: RobustRun, at: Sequence[AtSite], cause: Cause) -> StepAccount | None:
    """Step by step: of a path that changed against the one it replaced, else of the most affected one."""
    if not at:
        return None
    counts: dict[tuple[int, bool], list[int]] = {}
    for found in at:
        for hit in (False, True):
            both = counts.setdefault((found.category, hit), [0, 0])
            for sample in (REFERENCE, PROBLEM):
                both[sample] += int(((found.hit == hit) & (found.sample == sample)).sum())
    categories = run.population.categories
    if cause.lead.kind in PATH_KINDS:
        after = max(counts, key=lambda key: (counts[key][PROBLEM] * (key[1] == cause.lead.ups), -key[0]))
        before = max(counts, key=lambda key: (counts[key][REFERENCE] * (key[1] != cause.lead.ups), -key[0]))
        if counts[after][PROBLEM] and counts[before][REFERENCE] and after[0] != before[0]:
            return structural_account(categories[after[0]], categories[before[0]], _STEPS)
    merged: dict[int, list[int]] = {}
    affected: dict[int, int] = {}
    hit_in = PROBLEM if cause.lead.ups or cause.lead.kind in TIME_KINDS else REFERENCE
    for (category, hit), both in counts.items():
        mine = merged.setdefault(category, [0, 0])
        mine[REFERENCE] += both[REFERENCE]
        mine[PROBLEM] += both[PROBLEM]
        affected[category] = affected.get(category, 0) + hit * both[hit_in]
    shared = [category for category, both in merged.items() if min(both)]
    if not shared:
        return None
    best = max(shared, key=lambda category: (affected[category], min(merged[category]), -category))
    busiest = categories[best]
    changed = np.zeros(len(busiest.graph.edges), dtype=np.bool_)
    sites = {change.site for change in cause.changes}
    for pattern in run.patterns.patterns:
        if pattern.category == best:
            changed |= np.isin(pattern.sites.site[pattern.sites.owner], list(sites))
    return timing_account(busiest, attribute(busiest), changed, _STEPS)
