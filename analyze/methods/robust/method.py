"""Robust mode as a method of `flowdiff compare`, the default: assembles the report's sections and tables, and
the input of the gate."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from analyze.methods.port import Method, Result, SampleCount
from analyze.methods.robust.affected_requests import cut_notes, requests_table
from analyze.methods.robust.causes.contributions import contributions
from analyze.methods.robust.causes.resolve import by_size, has_effect
from analyze.methods.robust.flow_picture import flow_picture
from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.rule_names import refuse_unknown
from analyze.methods.robust.sections.breakdown import (
    BREAKDOWN,
    account_of,
    account_section,
    accounted_rows,
    exact_breakdown,
    failed_rows,
)
from analyze.methods.robust.sections.finding_rows import finding_tables, findings_of
from analyze.methods.robust.sections.findings import FINDINGS, foremost
from analyze.methods.robust.sections.first_screen import first_screen, headline_finding
from analyze.methods.robust.sections.kinds import KINDS_VIEW, kinds_section
from analyze.methods.robust.sections.paths import PATHS, paths_section
from analyze.methods.robust.sections.suspects import SUSPECTED, suspects_section, suspects_table
from analyze.methods.robust.sections.verdict import VERDICT, verdict_section
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.titles import headline_of
from analyze.methods.robust.verdict.assertions import one_sum, warn
from analyze.methods.robust.verdict.judgement import judge
from analyze.paths.settings import PathSettings
from analyze.profile.breakdown import ExactAccount
from analyze.profile.samples import ComparedSamples
from analyze.report.gate import FINDING_KINDS, ChangedMeasure, weigh
from analyze.report.limits import ReportLimits
from schemas.report.findings import FindingsSection, Interval
from schemas.report.parts import Section
from schemas.report.report import Verdict
from schemas.windows import NS_PER_US


def analyse(
    compared: ComparedSamples,
    history: ComparedSamples | None,
    settings: RobustSettings,
    limits: ReportLimits,
) -> Result:
    """Compare the problem (second sample) with the reference (first sample), with the history for normal
    variation. Raises ConfigError for an unknown rule in `settings.without`."""
    refuse_unknown(settings.without)
    run = robust_run(compared, history, settings)
    exact = exact_breakdown(run, "mean")
    judged = judge(run)
    mean = low, high, changed = judged.interval("mean")
    run = ranked(run, exact, mean_changed=changed)
    parts = contributions(run.causes, run.context, exact.parts, exact.mix, run.tested.seen.call_ratio)
    accounted = accounted_rows(exact, parts)
    failed = exact_breakdown(run, "errors")
    accounts = [
        account_of(exact, "mean", run, mean, accounted, limits),
        account_of(failed, "errors", run, judged.interval("errors"), failed_rows(failed, run), limits),
    ]
    if np.isfinite(run.threshold_ns):  # statistics were computed before the limit of slow requests was known
        tail = judged.interval("tail")
        accounts.insert(1, account_of(exact_breakdown(run, "tail"), "tail", run, tail, accounted, limits))
    shares = parts.shares(exact.after > exact.before) if changed else tuple(None for _ in run.causes)
    findings, affected = findings_of(run, limits, parts.of_causes, shares)
    verdict = verdict_section(run, judged, findings, accounts)
    suspects = suspects_section(run, verdict)
    kinds, every_kind = kinds_section(run)
    warn(one_sum(accounts[0], findings, float(parts.rest.sum() + parts.mix.sum()) / NS_PER_US))
    insignificant = None
    if findings and not (changed or low is None or high is None):
        insignificant = Interval(low=low, high=high)
    breakdown = account_section(run, accounts, limits)
    lead = headline_finding(verdict, breakdown, findings)
    paths: tuple[Section, ...] = ()
    if settings.paths and run.population.categories:
        past = None if history is None else history.population
        past = past if past and past.categories else None
        paths = (paths_section(run.population, past, PathSettings(), limits),)
    return Result(
        settings=settings,
        verdict=Verdict(outcome=verdict.outcome, text=" ".join(reason.text for reason in verdict.reasons)),
        sections=(
            verdict,
            *((suspects,) if suspects.suspects else ()),
            FindingsSection(
                findings=tuple(findings[at] for at in foremost(parts.of_causes, limits.findings)),
                findings_total=len(findings),
                better_total=sum(finding.is_better for finding in findings),
                insignificant_mean=insignificant,
            ),
            *((kinds,) if kinds.kinds else ()),
            breakdown,
            *paths,
        ),
        tables=finding_tables(findings, accounts)
        | {"requests": requests_table(run.population, affected)}
        | {"suspects": suspects_table(suspects), "kinds": every_kind},
        headline=headline_of(verdict, accounts[0], judged.changed_shares(), findings),
        notes=cut_notes(affected),
        picture=flow_picture(run, findings, 1 if lead is None else lead.rank, limits),
        weighed=weigh(
            [
                finding
                for finding, cause, part_ns in zip(findings, run.causes, parts.of_causes, strict=True)
                if has_effect(cause, part_ns, run.context)
            ],
            verdict,
            [
                *(ChangedMeasure(a.measure, a.before, a.after) for a in accounts[:1] if a.changed),
                *judged.changed_shares(),
            ],
            run.profile.responded("w", run.roles.reference),
            mix_changed=judged.mix.changed,
            silent=bool(judged.basis.silent),
            hidden=[(h.change.kind, h.change.contribution_ns / NS_PER_US) for h in run.tested.hidden],
        ),
    )


def ranked(run: RobustRun, mean: ExactAccount, *, mean_changed: bool) -> RobustRun:
    """Copy of the run with causes sorted by size, improvements among the others, if the mean response time
    fell significantly; otherwise the run itself."""
    return replace(run, causes=by_size(run.causes)) if mean_changed and mean.after < mean.before else run


METHOD: Final = Method(
    name="robust",
    title="What changed",
    settings=RobustSettings,
    samples=SampleCount(2, 2),
    analyse=analyse,
    sections=(replace(VERDICT, first_screen=first_screen), SUSPECTED, BREAKDOWN, FINDINGS, KINDS_VIEW, PATHS),
    kinds=FINDING_KINDS,
    needs_requests=False,
)
"""Entry of robust mode in the registry of methods."""
