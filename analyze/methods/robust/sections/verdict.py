"""Section with the verdict: outcome, reasons, data quality, and the smallest change that would have been
detected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.roles import PROBLEM
from analyze.methods.robust.sections.finding_rows import site_of
from analyze.methods.robust.testing import HiddenChange as Hidden
from analyze.methods.robust.titles import title
from analyze.methods.robust.verdict.assertions import checked
from analyze.methods.robust.verdict.judgement import Judgement
from analyze.methods.robust.verdict.outcome import outcome as reached
from analyze.methods.robust.verdict.reasons import (
    ExplainedShare,
    hidden_places,
    largest_rest,
    likely_place,
)
from analyze.report import blocks as b
from analyze.report import measures
from analyze.report.section_view import SectionView
from analyze.report.wording import counted, percent
from schemas.report.accounts import Account, HiddenChange, LikeWindow, ReasonKind, VerdictSection
from schemas.report.findings import Finding


def verdict_section(
    run: RobustRun, judged: Judgement, findings: Sequence[Finding], accounts: Sequence[Account]
) -> VerdictSection:
    """Fill the section: outcome and reasons, data quality, smallest visible changes. Warns if it contradicts
    the breakdown or the findings."""
    mean, settings = accounts[0], run.settings.verdict
    explained = None
    if mean.after != mean.before:
        low, high = mean.low, mean.high
        explained = ExplainedShare(
            sum(f.contribution_us for f in findings),
            mean.after - mean.before,
            (-np.inf if low is None else low, np.inf if high is None else high),
            mean.changed,
        )
    hidden = _hidden(run)
    lost = (run.confounded.text(name) for name in ("lost-instrumentation", "lost-records"))
    basis = replace(
        judged.basis,
        findings=len(findings),
        explained=explained,
        by_load=run.confounded.text("load"),
        incomplete=" ".join(filter(None, lost)),
        hidden=hidden_places(hidden, len(run.tested.hidden)),
    )
    found = reached(basis, run.settings)
    unexplained = found.outcome == "not-explained" and not found.by_load
    section = VerdictSection(
        outcome=found.outcome,
        external=found.external,
        by_load=found.by_load,
        reasons=(
            *found.reasons,
            *(likely_place(mean, settings.explained) if unexplained else ()),
            *(largest_rest(explained, mean, settings.rest) if explained is not None and findings else ()),
        ),
        quality=judged.quality,
        visible=judged.visible,
        untested_requests=_untested(run),
        missing_requests=found.missing_requests,
        hidden=hidden,
        equivalent_share=judged.whole.equivalent_share,
        calibration="",
    )
    return checked(section, accounts, findings)


def _hidden(run: RobustRun) -> tuple[HiddenChange, ...]:
    """Largest changes that are significant against the reference alone but hidden by the baseline's noise,
    each with the baseline windows that had similar values."""
    return tuple(_hidden_row(found, run) for found in run.tested.hidden[:MOST_HIDDEN])


def _hidden_row(found: Hidden, run: RobustRun) -> HiddenChange:
    change, names = found.change, run.profile.names
    slots = run.profile.slots
    noise = run.roles.noise.tolist()
    windows = []
    for block, value in found.alike:
        mine = [slot for slot, of in zip(slots, noise, strict=True) if of == block]
        windows.append(
            LikeWindow(
                start_ns=min(slot.start_ns for slot in mine),
                end_ns=max(slot.end_ns for slot in mine),
                value=value,
                in_history=all(slot.sample > PROBLEM for slot in mine),
            )
        )
    return HiddenChange(
        title=title(change, [change], names),
        kind=change.kind,
        site=site_of(change.site, names),
        unit=change.unit,
        before=change.before,
        after=change.after,
        requests0=change.n0,
        requests1=change.n1,
        p=change.p,
        p_usual=found.p_usual,
        assumed=run.roles.noise_assumed,
        windows=tuple(sorted(windows, key=lambda window: window.start_ns)),
        windows_of=found.blocks,
    )


def _untested(run: RobustRun) -> int:
    """Number of the problem's requests that touch no call site with a test."""
    tested = np.zeros(len(run.profile.names.sites), dtype=np.bool_)
    tested[list(run.tested.sites)] = True
    total = 0
    for group in run.profiled.groups:
        sample = run.population.categories[group.category].sample[group.rows]
        sites = group.sites
        if not (tested[sites.site].any() or tested[sites.pattern_site].any()):
            total += int((sample == PROBLEM).sum())
    return total


OUTCOME: Final = {
    "unchanged": "Unchanged",
    "changed": "Changed",
    "partly-explained": "Changed, partly explained",
    "not-explained": "Changed, not explained",
    "cannot-tell": "Cannot tell",
}
_MEANS: Final = {
    "unchanged": "A change large enough to matter would have been seen.",
    "changed": "Each finding is one cause.",
    "partly-explained": "Something changed; the findings do not explain all of it.",
    "not-explained": "Something changed significantly, and no finding says what.",
    "cannot-tell": "Too little was recorded to decide.",
}
MOST_HIDDEN: Final = 5
"""Maximum number of hidden changes (significant against the reference alone) in a report."""
WORTH: Final = 0.05
"""Minimum share of the time in unchanged root types, in [0, 1], for a sentence about them."""
_OPEN: Final = ("unchanged", "cannot-tell", "not-explained")
"""Outcomes for which the display shows the smallest visible changes."""

_QUALITY: Final = (
    b.Column("kind", "About"),
    b.Column(
        "text",
        "What the data are like",
        value=lambda row: (b.tag("severe", "worse"), " ", row.text) if row.severe else row.text,
    ),
)
_HIDDEN: Final = (
    b.Column("title", "What"),
    b.Column("", "Before → after", "figure", lambda row: _moved(row)),
    b.Column("requests{}", "Requests", "count"),
    b.Column("p", "p, reference alone", "p"),
    b.Column("p_usual", "p, ordinary windows", "p"),
    b.Column("", "Windows like it", "figure", lambda row: f"{len(row.windows)} of {row.windows_of}"),
)
_VISIBLE: Final = (
    b.Column("root", "Root type", "name"),
    b.Column("requests{}", "Requests", "count"),
    b.Column(
        "ratio", "Smallest visible change of a call site's time", "figure", lambda row: _time(row.ratio)
    ),
    b.Column("share", "of a share", "figure", lambda row: _points(row.share)),
)


def verdict_blocks(section: VerdictSection) -> b.Blocks:
    """Display of the section: outcome and reasons, the rest folded."""
    is_open = section.outcome in _OPEN
    reasons: list[b.Words] = [*(reason.text for reason in section.reasons), *map(b.dim, gaps(section))]
    same = equivalent(section)
    sentences = (equivalent(section), visible_sentence(section)) if is_open else ()
    title = b.Styled(outcome(section), "strong", f"outcome {section.outcome}")
    return (
        b.Part(
            title,
            (
                b.Items(reasons),
                *(b.Only("page", (b.Text(text, "dim"),)) for text in (same,) if text),
                b.Only(
                    "terminal",
                    tuple(b.Text(text, "dim") for text in (*sentences, section.calibration) if text),
                ),
                b.Details(
                    "How sure: the data, and the smallest change that would have been seen",
                    (
                        b.Grid("Data quality", _QUALITY, section.quality),
                        b.Grid(
                            "Significant against the reference alone, and no finding", _HIDDEN, section.hidden
                        ),
                        b.Grid("Smallest visible change", _VISIBLE, section.visible),
                        b.Text(section.calibration, "dim"),
                    ),
                    open=is_open,
                ),
            ),
            note=meaning(section),
            anchor="sure",
            look="lead",
        ),
    )


def outcome(section: VerdictSection) -> str:
    """Outcome as text, e.g. `Changed, partly explained`, also if load or clients are the cause."""
    if section.by_load:
        return "Changed by load"
    return OUTCOME[section.outcome] + (": the cause is outside" if section.external else "")


def meaning(section: VerdictSection) -> str:
    """Sentence that explains what the outcome means."""
    if section.external:
        return "Clients sent less, and not because answers took longer."
    if section.by_load:
        return "Requests wait longer, or less, as another load makes them; no call site changed beyond that."
    return _MEANS[section.outcome]


def warnings(section: VerdictSection) -> tuple[str, ...]:
    """Sentences on severe limits of the data, to be read before the headline; limits that the verdict's
    reasons state already are left out."""
    told = {reason.text for reason in section.reasons}
    return tuple(row.text for row in section.quality if row.severe and row.text not in told)


def gaps(section: VerdictSection) -> tuple[str, ...]:
    """Sentences on limits: names under which periods were compared, number of missing requests (unless a
    reason gives it), requests that no test covers."""
    sentences = [row.text for row in section.quality if row.kind == "labels" and not row.severe]
    missing = section.missing_requests
    if missing is not None and all(reason.requests is None for reason in section.reasons):
        sentences.append(f"About {counted(missing, 'more request')} would have been needed.")
    if section.untested_requests:
        verb, whose = ("was", "its") if section.untested_requests == 1 else ("were", "their")
        sentences.append(
            f"{counted(section.untested_requests, 'problem request')} {verb} reached by no test: too few "
            f"of {whose} kind."
        )
    return tuple(sentences)


def _moved(row: HiddenChange) -> str:
    return f"{measures.value(row.unit, row.before)} → {measures.value(row.unit, row.after)}"


def equivalent(section: VerdictSection) -> str:
    """Sentence on the share of time in root types that are as fast as before; empty if that share is small,
    or the outcome is "cannot-tell"."""
    known = section.equivalent_share
    if known is None or known < WORTH or section.outcome == "cannot-tell":
        return ""
    return f"Root types with {percent(known)} of the time are as fast as before."


def visible_sentence(section: VerdictSection) -> str:
    """Sentence on the smallest visible change at the root type with the best test; empty if none was tested,
    or if a reason gives the bound of possible changes."""
    if any(reason.kind is ReasonKind.BOUND for reason in section.reasons):
        return ""  # the bound of possible changes is more informative
    ratios = [row.ratio for row in section.visible if row.ratio is not None]
    shares = [row.share for row in section.visible if row.share is not None]
    sentences = []
    if ratios:
        sentences.append(f"{_time(min(ratios))} of a call site's time")
    if shares:
        sentences.append(f"{_points(min(shares))} of a path's or an error's share")
    return (
        f"Smallest visible change, at the best tested root type: {' and '.join(sentences)}."
        if sentences
        else ""
    )


def _time(ratio: float | None) -> str:
    return "not tested" if ratio is None else percent(ratio - 1, sign=True)


def _points(share: float | None) -> str:
    return "not tested" if share is None else f"{percent(share).removesuffix('%')}points"


VERDICT: Final = SectionView(VerdictSection, verdict_blocks, leads=True, warnings=warnings)
