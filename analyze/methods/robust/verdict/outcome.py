"""Outcome of a comparison (one of five words), and the reasons for it.

Missing evidence never counts as "unchanged". "unchanged" requires that no measure of the whole period changed
significantly, and that no change as large as the user's bounds is possible. If nothing is found but such a
change is possible, the outcome is "cannot-tell", with the largest possible change and the number of requests
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.verdict import reasons as why
from analyze.methods.robust.verdict.reasons import ExplainedShare, said
from analyze.methods.robust.verdict.sizes import LargestChange
from analyze.methods.robust.verdict.whole import PeriodMeasure
from schemas.report.accounts import Reason, ReasonKind

Word = Literal["unchanged", "changed", "partly-explained", "not-explained", "cannot-tell"]

_OPEN: Final = ("unchanged", "cannot-tell")


@dataclass(frozen=True, slots=True)
class VerdictReached:
    """Outcome of a comparison and the reasons for it; fields as in `VerdictSection`."""

    outcome: Word
    reasons: tuple[Reason, ...]
    external: bool = False
    missing_requests: int | None = None
    by_load: bool = False
    """True if the outcome is due to changes that higher or lower load explains, and that are therefore no
    findings."""


@dataclass(frozen=True, slots=True)
class VerdictBasis:
    """Facts that decide the outcome. Attributes that are functions are called only if the outcome or a
    sentence needs the value."""

    measures: tuple[PeriodMeasure, ...]
    """Measures of whole periods, e.g. the mean response time; empty if a period has no requests."""
    mix_changed: bool
    """True if the mix of root types changed significantly."""
    largest: Callable[[], LargestChange]
    missing: Callable[[], int | None]
    """Function that computes how many more requests the problem would need for a decision; it returns None if
    no number suffices."""
    findings: int = 0
    """Number of findings of the report."""
    has_noise: bool = False
    """True if a history, or a long reference, shows how much normal periods differ; False if that is
    assumed."""
    timeless: bool = False
    """True if all requests of a period took 0 ns, so that times cannot be compared."""
    explained: ExplainedShare | None = None
    """Share of the change of the mean response time that findings explain; None if the mean did not change at
    all."""
    external: Callable[[], str] = str
    """Function that returns the sentence that clients sent fewer requests for reasons outside of the service;
    empty if they did not."""
    by_load: str = ""
    """Sentence on changes that load explains; empty if there are none."""
    incomplete: str = ""
    """Sentence on events that are missing in a period; empty if none are."""
    there_before: str = ""
    """Sentence that reference and problem differ from the history, but not from each other; empty
    otherwise."""
    hidden: tuple[Reason, ...] = ()
    """Reasons about call sites with a change that is significant against the reference alone, but not against
    the baseline."""
    silent: str = ""
    """Sentence on an interval of the problem without requests although some were expected, which counts as a
    change; empty if there is none."""


def outcome(basis: VerdictBasis, settings: RobustSettings) -> VerdictReached:
    """Decide the outcome of a comparison, with its reasons in the order of the report."""
    found = _decided(basis, settings)
    before = said(ReasonKind.THERE_BEFORE, basis.there_before)
    begins = found.outcome not in _OPEN  # new problems come before earlier ones
    helps: tuple[Reason, ...] = ()
    if found.outcome == "cannot-tell" and not basis.timeless:
        helps = (why.what_helps(has_noise=basis.has_noise),)
    nothing = not (basis.findings or basis.hidden or any(t.changed or t.hidden for t in basis.measures))
    size = basis.largest().text() if nothing and (found.outcome in _OPEN or basis.silent) else ""
    reasons = (
        *(() if begins else before),
        *found.reasons,
        *why.insignificant(basis.measures, settings),
        *(reason for reason in basis.hidden if reason not in found.reasons),
        *said(ReasonKind.BOUND, size),
        *helps,
        *(before if begins else ()),
    )
    return replace(found, reasons=reasons)


def _decided(basis: VerdictBasis, settings: RobustSettings) -> VerdictReached:
    changed = [*why.changed(basis.measures), *([why.MIX] if basis.mix_changed else ())]
    incomplete = said(ReasonKind.INCOMPLETE, basis.incomplete)
    silent = said(ReasonKind.SILENCE, basis.silent)
    if basis.findings:
        return _with_findings(basis, changed, settings)
    if basis.incomplete and (changed or basis.by_load):
        return VerdictReached("cannot-tell", (*incomplete, *changed, why.MAY_BE_MISSING))
    if basis.by_load:
        load = said(ReasonKind.LOAD, basis.by_load)
        return VerdictReached("not-explained", (*load, *changed), by_load=True)
    if changed:
        return VerdictReached("not-explained", (*changed, why.NO_FINDING))
    if not basis.measures:
        return VerdictReached("cannot-tell", (why.NO_REQUESTS,))
    if hidden := (*why.hidden(basis.measures), *basis.hidden):
        return VerdictReached("cannot-tell", (*silent, *hidden, *incomplete))
    largest = basis.largest()
    if not largest.within(settings):
        missing = basis.missing()
        few = why.too_few(largest, missing, basis.measures, settings, timeless=basis.timeless)
        return VerdictReached("cannot-tell", (*silent, *incomplete, few), missing_requests=missing)
    if basis.there_before:
        return VerdictReached("cannot-tell", (*silent, why.ASK_AGAIN))
    nothing = why.nothing(settings)
    if basis.silent:
        beside = nothing.model_copy(update={"text": f"Beside it: {nothing.text}"})
        return VerdictReached("not-explained", (*silent, beside))
    external = said(ReasonKind.EXTERNAL, basis.external())
    return VerdictReached("unchanged", (*external, nothing), external=bool(external))


def _with_findings(
    basis: VerdictBasis, changed: Sequence[Reason], settings: RobustSettings
) -> VerdictReached:
    explained = basis.explained
    word: Word = "changed"
    if not basis.timeless and explained is not None and explained.significant:
        word = "partly-explained" if explained.share < settings.verdict.explained else "changed"
    reason = why.explained(basis.findings, explained, timeless=basis.timeless)
    return VerdictReached(word, (*changed, reason))
