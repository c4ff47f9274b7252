"""Show the verdict: what came out, why, how good the data are, and what size of change would have been
seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.roles import PROBLEM
from analyze.methods.robust.sections.finding_rows import site_of
from analyze.methods.robust.titles import title
from analyze.methods.robust.verdict.assertions import checked
from analyze.methods.robust.verdict.judgement import Judgement
from analyze.methods.robust.verdict.outcome import ExplainedShare, VerdictReached
from analyze.methods.robust.verdict.outcome import outcome as reached
from analyze.report import blocks as b
from analyze.report import measures, wording
from analyze.report.section_view import SectionView
from analyze.report.wording import count, counted, percent
from schemas.periods import Period
from schemas.report.accounts import Account, HeldBack, VerdictSection
from schemas.report.findings import Finding


def verdict_section(
    run: RobustRun, judged: Judgement, findings: Sequence[Finding], accounts: Sequence[Account]
) -> VerdictSection:
    """Fill the section: the outcome and its reasons."""
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
    lost = (run.confounded.text(name) for name in ("lost-instrumentation", "lost-records"))
    basis = replace(
        judged.basis,
        findings=len(findings),
        explained=explained,
        by_load=run.confounded.text("load"),
        incomplete=" ".join(filter(None, lost)),
    )
    found = reached(basis, run.settings)
    section = VerdictSection(
        outcome=found.outcome,
        external=found.external,
        by_load=found.by_load,
        reasons=(
            *found.reasons,
            *likely_place(found, mean, settings.explained),
            *(largest_rest(explained, mean, settings.rest) if explained is not None and findings else ()),
        ),
        quality=judged.quality,
        visible=judged.visible,
        untested_requests=_untested(run),
        missing_requests=found.missing_requests,
        held_back=_held_back(run),
        equivalent_share=judged.whole.equivalent_share,
        calibration="",
    )
    return checked(section, accounts, findings)


def likely_place(reached: VerdictReached, mean: Account, least: float) -> Iterator[str]:
    """Name the component at which most of a significant change of the mean lies that no finding explains: its
    own time, and what others wait for it. A short reference shows no place by itself."""
    change = mean.after - mean.before
    if reached.outcome != "not-explained" or reached.by_load or not mean.changed or not change:
        return
    parts: dict[str, float] = defaultdict(float)
    for row in mean.rows:
        parts[row.site.operation.partition(" -> ")[2] or row.site.component] += row.total
    name, part = max(parts.items(), key=lambda item: item[1] / change, default=("", 0.0))
    if part / change >= least:
        amounts = f"{wording.change(part)} of {wording.change(change)}"
        yield (
            f"Likely at {name}: {percent(min(part / change, 1.0))} of the change of the mean lies there "
            f"({amounts}), though no finding is there."
        )


def largest_rest(explained: ExplainedShare, mean: Account, least: float) -> Iterator[str]:
    """Name the operations with most of what no finding explains of a significant change of the mean: what
    waits for a slow place is slower, too, and by itself not always significantly."""
    change = mean.after - mean.before
    if not explained.significant or (change - explained.found_us) / change < least:
        return
    parts: dict[str, float] = defaultdict(float, {"the mix of requests": mean.mix})
    for row in mean.rows:
        if row.finding is None:
            parts[f"{row.site.component}/{row.site.operation}"] += row.total
    largest = sorted(parts.items(), key=lambda item: -item[1] / change)[:_MOST_NAMED]
    named = [f"{name} ({wording.change(part)})" for name, part in largest if part / change > 0]
    if named:
        yield f"Largest other parts, without a finding: {', '.join(named)}."


def _held_back(run: RobustRun) -> HeldBack | None:
    """Give what ordinary times keep from being found: how much, and the largest with the window that had
    most."""
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
        site=site_of(largest.site, names),
        unit=largest.unit,
        before=largest.before,
        after=largest.after,
        usual=found[0].value,
        start_ns=min(slot.start_ns for slot in slots),
        end_ns=max(slot.end_ns for slot in slots),
        in_history=all(slot.sample > PROBLEM for slot in slots),
    )


def _untested(run: RobustRun) -> int:
    """Count problem requests with no site that a test reached."""
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
_MOST_NAMED: Final = 2
WORTH: Final = 0.05
"""Share of the time in root types that is worth a sentence."""
UNSEEN: Final = "changed unseen"
"""Words of the reason that bounds what may have changed."""
_OPEN: Final = ("unchanged", "cannot-tell", "not-explained")
"""Outcomes that raise the question what would have been seen."""

_QUALITY: Final = (
    b.Column("kind", "About"),
    b.Column(
        "text",
        "What the data are like",
        value=lambda row: (b.tag("severe", "worse"), " ", row.text) if row.severe else row.text,
    ),
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
    """Show the outcome and its reasons in sight, the rest on demand."""
    is_open = section.outcome in _OPEN
    reasons: list[b.Words] = [*section.reasons, *map(b.dim, gaps(section))]
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
    """Say `Changed, partly explained`; who is the cause, where it is the clients."""
    if section.by_load:
        return "Changed by load"
    return OUTCOME[section.outcome] + (": the cause is outside" if section.external else "")


def meaning(section: VerdictSection) -> str:
    """Say what the outcome stands for, in a sentence."""
    if section.external:
        return "Clients sent less, and not because answers took longer."
    if section.by_load:
        return "Requests wait longer, or less, as another load makes them; no call site changed beyond that."
    return _MEANS[section.outcome]


def warnings(section: VerdictSection) -> tuple[str, ...]:
    """Say what a reader must know before the headline."""
    severe = tuple(row.text for row in section.quality if row.severe and row.text not in section.reasons)
    return (*severe, held_back(section)) if _matters(section) else severe


def gaps(section: VerdictSection) -> tuple[str, ...]:
    """Say under which names was compared, what is missing, unless a reason tells it, and what was not
    tested."""
    sentences = [row.text for row in section.quality if row.kind == "labels" and not row.severe]
    missing = section.missing_requests
    if missing is not None and not any(count(missing) in reason for reason in section.reasons):
        sentences.append(f"About {counted(missing, 'more request')} would have been needed.")
    if section.untested_requests:
        verb, whose = ("was", "its") if section.untested_requests == 1 else ("were", "their")
        sentences.append(
            f"{counted(section.untested_requests, 'problem request')} {verb} reached by no test: too few "
            f"of {whose} kind."
        )
    if section.held_back is not None and not _matters(section):
        sentences.append(held_back(section))
    return tuple(sentences)


def _matters(section: VerdictSection) -> bool:
    """Tell whether what the baseline keeps from being found may be what is looked for."""
    return section.held_back is not None and section.outcome not in ("unchanged", "changed")


def held_back(section: VerdictSection) -> str:
    """Say what changed significantly and is no finding, and which window held such a value; empty for
    nothing."""
    held = section.held_back
    if held is None:
        return ""
    where = "history" if held.in_history else "reference"
    one = held.places == 1
    usual = measures.value(held.unit, held.usual)
    window = Period(None, held.start_ns, held.end_ns).text
    return (
        f"At {counted(held.places, 'call site')} a significant change is no finding, as the baseline held "
        f"such values{':' if one else '. The largest:'} {held.title} (in the {where} {usual}, {window}). "
        f"Leave incidents out of the {where} to see {'it' if one else 'them'}."
    )


def equivalent(section: VerdictSection) -> str:
    """Say what is shown to be the same; empty where little is, or where it is not enough to tell."""
    known = section.equivalent_share
    if known is None or known < WORTH or section.outcome == "cannot-tell":
        return ""
    return f"Root types with {percent(known)} of the time are shown to be as fast as before."


def visible_sentence(section: VerdictSection) -> str:
    """Say what would have been seen at the best tested root type; empty where none was tested."""
    if any(UNSEEN in reason for reason in section.reasons):
        return ""  # what may have gone unseen says more
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
