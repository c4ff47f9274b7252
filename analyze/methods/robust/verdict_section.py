"""The verdict of a run: how sure, and what was not tested."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyze.methods.robust.finding_rows import site_of
from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.roles import PROBLEM
from analyze.methods.robust.titles import title
from analyze.methods.robust.verdict.assertions import checked
from analyze.methods.robust.verdict.judgement import Judgement
from analyze.methods.robust.verdict.outcome import ExplainedShare
from schemas.report.accounts import Account, HeldBack, VerdictSection
from schemas.report.findings import Finding


def verdict_section(
    run: RobustRun, looked: Judgement, findings: Sequence[Finding], accounts: Sequence[Account]
) -> VerdictSection:
    """The outcome and its reasons."""
    mean = accounts[0]
    explained = None
    if mean.changed and mean.after != mean.before:
        low, high = mean.low, mean.high
        explained = ExplainedShare(
            sum(f.contribution_us for f in findings),
            mean.after - mean.before,
            (-np.inf if low is None else low, np.inf if high is None else high),
        )
    found = looked.outcome(
        len(findings),
        explained,
        by_load=run.confounded.text("load"),
        torn=" ".join(
            filter(None, (run.confounded.text("lost-instrumentation"), run.confounded.text("lost-records")))
        ),
    )
    section = VerdictSection(
        outcome=found.outcome,
        external=found.external,
        by_load=found.by_load,
        reasons=found.reasons,
        quality=looked.quality,
        visible=looked.visible,
        untested_requests=_untested(run),
        missing_requests=found.missing_requests,
        held_back=_held_back(run),
        equivalent_share=looked.whole.equivalent_share,
        calibration="",
    )
    return checked(section, accounts, findings)


def _held_back(run: RobustRun) -> HeldBack | None:
    """What ordinary times keep from being found: how much, and the largest with the window that had most."""
    found = run.tested.held_back
    if not found:
        return None
    largest, names = found[0].change, run.profile.names
    slots = [
        slot
        for slot, block in zip(run.profile.slots, run.roles.noise.tolist(), strict=True)
        if block == found[0].block
    ]
    return HeldBack(
        places=len(found),
        title=title(largest, [largest], names),
        kind=largest.kind,
        site=site_of(largest, names),
        unit=largest.unit,
        before=largest.before,
        after=largest.after,
        usual=found[0].value,
        start_ns=min(slot.start_ns for slot in slots),
        end_ns=max(slot.end_ns for slot in slots),
        in_history=all(slot.sample > PROBLEM for slot in slots),
    )


def _untested(run: RobustRun) -> int:
    """Problem requests with no site that a test reached."""
    tested = np.zeros(len(run.profile.names.sites), dtype=np.bool_)
    tested[list(run.tested.sites)] = True
    total = 0
    for pattern in run.patterns.patterns:
        sample = run.population.categories[pattern.category].sample[pattern.rows]
        sites = pattern.sites
        if not (tested[sites.site].any() or tested[sites.shape_site].any()):
            total += int((sample == PROBLEM).sum())
    return total
