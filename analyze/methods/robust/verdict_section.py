"""How sure: the whole period by test, what findings explain, the outcome (ALGORITHMS L.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.sites.totals import totals
from schemas.report.accounts import Account, Measure, VerdictSection
from schemas.report.findings import Finding

_EXPLAINED = 0.7
Outcome = Literal["unchanged", "changed", "partly-explained", "not-explained", "cannot-tell"]


def period_change(run: RobustRun, measure: Measure, settings: RobustSettings) -> tuple[float, float, bool]:
    """(low, high, changed) of a measure of the whole period, from its blocks."""
    table, roles = run.profile.responses, run.roles
    slot = table["slot"].to_numpy()
    n = len(roles.problem)
    if measure == "tail":
        account = run.profile.account
        value = totals(account["slot"].to_numpy(), account["over"].to_numpy(), n)
    else:
        value = totals(slot, table["ns" if measure == "mean" else "failed"].to_numpy(), n)
    weight = totals(slot, table["w"].to_numpy(), n)
    scale = 1e-3 if measure == "mean" else 1.0
    means = []
    for inside in (roles.reference, roles.problem):
        used = inside & (weight > 0)
        blocks = value[used] / weight[used]
        mean = value[used].sum() / max(weight[used].sum(), 1e-300)
        se = blocks.std(ddof=1) / np.sqrt(len(blocks)) if len(blocks) > 1 else abs(mean)
        means.append((mean * scale, se * scale))
    difference = means[1][0] - means[0][0]
    se = float(np.hypot(means[0][1], means[1][1]))
    floors = {
        "mean": settings.time_floor * means[0][0],
        "tail": settings.tail_floor,
        "errors": settings.new_floor,
    }
    changed = abs(difference) > settings.min_z * se and abs(difference) > floors[measure]
    return difference - 1.96 * se, difference + 1.96 * se, bool(changed)


def verdict_section(
    run: RobustRun, findings: Sequence[Finding], accounts: Sequence[Account], settings: RobustSettings
) -> VerdictSection:
    """The outcome and its reasons."""
    del settings, run
    mean = accounts[0]
    moved = [account for account in accounts if account.changed]
    explained = sum(finding.contribution_us for finding in findings) / (mean.after - mean.before or 1.0)
    if findings:
        partly = mean.changed and explained < _EXPLAINED
        outcome: Outcome = "partly-explained" if partly else "changed"
    else:
        outcome = "not-explained" if moved else "unchanged"
    return VerdictSection(
        outcome=outcome,
        external=False,
        reasons=(f"{len(findings)} findings.",),
        quality=(),
        visible=(),
        untested_requests=0,
        missing_requests=None,
        equivalent_share=None,
        calibration="",
    )
