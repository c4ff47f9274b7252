"""All tests at sites over one profile, and which of them count (ALGORITHMS L.4, L.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyze.findings.changes import Change
from analyze.methods.robust.call_tests import call_changes
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.shape_tests import error_changes, shape_changes
from analyze.methods.robust.time_tests import overlap_changes, time_changes
from analyze.methods.robust.visit_sums import BothSums
from analyze.sites.profile import Profile
from analyze.stats.multiple import q_values


@dataclass(frozen=True, slots=True)
class Tested:
    """What was tested at the sites of a profile."""

    changes: tuple[Change, ...]
    """Those that count."""
    candidates: int
    sites: frozenset[int]
    """Sites that some test reached."""
    sums: BothSums


def tested_changes(profile: Profile, roles: Roles, settings: RobustSettings) -> Tested:
    """Run every family of tests; Benjamini-Hochberg over all, then noise and floors."""
    sums = BothSums.of(profile, roles)
    candidates: list[Change] = [
        *time_changes(profile, roles, sums, settings),
        *overlap_changes(profile, roles, sums, settings),
        *call_changes(profile, roles, sums, settings),
        *shape_changes(profile, roles, sums, settings),
        *error_changes(profile, roles, sums, settings),
    ]
    q = q_values(np.array([change.p for change in candidates]))
    kept = _kept(candidates, q.tolist(), settings.q)
    return Tested(tuple(kept), len(candidates), frozenset(change.site for change in candidates), sums)


def _kept(candidates: Sequence[Change], q: Sequence[float], level: float) -> list[Change]:
    return [
        replace(change, q=value)
        for change, value in zip(candidates, q, strict=True)
        if change.passes and value <= level
    ]
