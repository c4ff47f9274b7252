"""First screen of a comparison, about ten lines: verdict, onset, cause, affected requests, next step."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher
from typing import Final

from analyze.methods.robust.kind_words import KIND_WORDS
from analyze.methods.robust.sections.findings import differs
from analyze.methods.robust.sections.picture import picture_blocks
from analyze.methods.robust.sections.verdict import meaning
from analyze.report import blocks as b
from analyze.report import wording
from analyze.report.drawing.time_strip import time_strip
from analyze.report.section_view import FirstScreen
from analyze.report.wording import NBSP, clip, count, counted, percent, significant
from schemas.report.accounts import Account, AccountedMeasure, AccountSection, VerdictSection
from schemas.report.explanations import ChangedIdentifier, Explanation, Rule
from schemas.report.findings import ChangeKind, Example, Finding, FindingsSection
from schemas.report.report import Report, SampleSummary
from schemas.report.suspects import SuspectsSection
from schemas.windows import NS_PER_SECOND

_MOST_OTHERS: Final = 2
"""Maximum number of findings listed below the headline's finding."""
_MOST_ROOTS: Final = 3
"""Maximum number of root types named, for affected and for unaffected ones each."""
_MOST_REASONS: Final = 3
_MOST_CHANGED_WITH: Final = 2

Accounts = Mapping[AccountedMeasure, Account]

_MARK: Final = {"unchanged": "✓", "cannot-tell": "?", "not-explained": "?"}


def first_screen(report: Report) -> FirstScreen:
    """Build the first screen of a report of robust mode."""
    verdict, account = report.section(VerdictSection), report.section(AccountSection)
    found = report.section(FindingsSection)
    shown = [f for f in found.findings if not (found.only == "worse" and f.is_better)]
    total = found.findings_total - (found.better_total if found.only == "worse" else 0)
    accounts = {one.measure: one for one in account.accounts}
    word = direction(verdict, accounts, shown)
    said = tuple(note for note in report.notes if note == wording.REVERSED)
    lead = headline_finding(verdict, account, shown)
    return FirstScreen(
        headline=_headline(report, verdict, word, lead),
        blocks=(
            *(b.Text(f"! {note}", "warning") for note in said),
            b.Text(_numbers(report, accounts)),
            *((b.Text(_who(lead, account)),) if lead is not None else ()),
            b.Facts([*_facts(report, shown, lead, total, accounts, word[0])], look="table"),
            b.Only("terminal", (b.Text(_periods(report.samples, (account.rate0, account.rate1)), "dim"),)),
        ),
        said=said,
        over_time=() if report.strip is None else (time_strip(report.strip, _onset_ns(lead)),),
        picture=() if report.picture is None or lead is None else picture_blocks(report.picture),
    )


def direction(verdict: VerdictSection, accounts: Accounts, findings: Sequence[Finding]) -> tuple[str, b.Tone]:
    """Verdict as a word in capitals, e.g. `SLOWER`, and its colour: about failures if their share rose,
    otherwise about the mean, otherwise about slow requests, otherwise about the first finding."""
    if verdict.outcome == "unchanged":
        return "UNCHANGED", "better"
    if verdict.outcome == "cannot-tell":
        return "CANNOT TELL", "warning"
    if verdict.by_load:
        return "CHANGED BY LOAD", "warning"
    ups = {name: one.after > one.before for name, one in accounts.items() if one.changed}
    lead = findings[0] if findings else None
    if ups.get("errors"):
        return "FAILING", "worse"
    if ups.get("mean") is False and (lead is None or lead.is_better):
        return "FASTER", "better"
    if ups.get("mean") or (ups.get("tail") and "mean" not in ups):
        return "SLOWER", "worse"
    if lead is not None:
        improves = lead.kind in (ChangeKind.FASTER, ChangeKind.FEWER_ERRORS, ChangeKind.PARALLEL)
        return KIND_WORDS[
            lead.kind
        ].verdict, "better" if lead.is_better else "warning" if improves else "worse"
    if "errors" in ups:
        return "FAILING LESS", "better"
    return ("FASTER", "better") if "tail" in ups else ("CHANGED", "warning")


def headline_finding(
    verdict: VerdictSection, account: AccountSection, findings: Sequence[Finding]
) -> Finding | None:
    """First finding that can be the cause of the verdict's word, e.g. of `SLOWER`; None if no finding can."""
    word, _ = direction(verdict, {one.measure: one for one in account.accounts}, findings)
    return next((one for one in findings if _agrees(one, word)), None)


def _agrees(finding: Finding, word: str) -> bool:
    """True if a finding can be the cause of the verdict's word, e.g. of `SLOWER`."""
    kinds = {finding.kind, *(evidence.kind for evidence in finding.evidence)}
    if word == "FAILING":
        return ChangeKind.ERRORS in kinds
    if word == "SLOWER":
        return finding.contribution_us > 0 or KIND_WORDS[finding.kind].verdict == word
    if word == "FASTER":
        return finding.contribution_us < 0 or KIND_WORDS[finding.kind].verdict == word
    return True


def _headline(
    report: Report, verdict: VerdictSection, word: tuple[str, b.Tone], lead: Finding | None
) -> b.Words:
    text, tone = word
    by_tone = {"better": "✓", "warning": "?"}.get(tone, "✗")
    mark = b.Styled(f"{_MARK.get(verdict.outcome, by_tone)} {text}", tone)
    if lead is not None:
        one, other = report.samples
        at_once = one.start_ns < other.end_ns and other.start_ns < one.end_ns
        since = "" if at_once else since_words(lead, other)  # overlapping samples have no onset
        told = f" {since}" if since else ""
        # A segment's title begins with what the word says: `FAILING since … for tier = free: …`.
        verb, _, rest = lead.title.partition(" ")
        if verb.upper() == text:
            return (mark, told, f" {rest}")
        return (mark, f"{told}: ", lead.title)
    return (mark, ": ", _without_finding(report, verdict))


def _without_finding(report: Report, verdict: VerdictSection) -> str:
    """Headline of a report without a finding for the headline: the reason."""
    section = report.section(FindingsSection)
    if section.only == "worse" and section.findings and all(one.is_better for one in section.findings):
        return "all findings are for the better, and not shown (--only worse)"
    if section.findings:
        return "no finding is the cause of it; what was found stands below"
    if verdict.outcome == "cannot-tell" and verdict.reasons:
        return verdict.reasons[0].text
    text = meaning(verdict)
    return text[:1].lower() + text[1:]


def _onset_ns(lead: Finding | None) -> int | None:
    when = None if lead is None else lead.when
    return None if when is None or when.began is None else when.began.at_ns


def since_words(finding: Finding, period: SampleSummary) -> str:
    """Text of the time when a finding began (and ended): `since 20:38:02Z`, `since 20:38:00Z or before`,
    `from 20:38:02Z until 20:40:10Z`, or `in the period from 20:38:00Z` if unknown."""
    day = f"{_instant(period.start_ns):%Y-%m-%d}"
    when, first = finding.when, finding.first_window_ns
    start = _clock(period.start_ns, day)
    if when is None:
        if first is None:
            return f"in the period from {start}"
        return f"since {start} or before" if first <= period.start_ns else f"since {_clock(first, day)}"
    began = None if when.began is None else _clock(when.began.at_ns, day)
    if when.ended is None:
        return f"since {start} or before" if began is None else f"since {began}"
    return f"from {began or start} until {_clock(when.ended.at_ns, day)}"


def _instant(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // NS_PER_SECOND, UTC)


def _clock(ns: int, day: str) -> str:
    at = _instant(ns)
    return f"{at:%H:%M:%S}Z" if f"{at:%Y-%m-%d}" == day else f"{at:%Y-%m-%d %H:%M:%S}Z"


def _numbers(report: Report, accounts: Accounts) -> b.Words:
    """Line with mean, 99th percentile, share of failing requests and load, before and after."""
    before, after = report.samples
    mean, errors = accounts["mean"], accounts["errors"]
    by = f" ({percent(mean.after / mean.before - 1, sign=True)})" if mean.before > 0 else ""
    times = wording.durations(mean.before, mean.after)
    told = (
        f"{times[0]} (same)"
        if times[0] == times[1]
        else f"{' → '.join(times)}{by if mean.changed else _CHANCE}"
    )
    parts = [f"mean {told}"]
    if before.p99_us is not None and after.p99_us is not None:
        tails = wording.durations(before.p99_us, after.p99_us)
        parts.append(f"p99 {tails[0]} (same)" if tails[0] == tails[1] else f"p99 {' → '.join(tails)}")
    shares = percent(errors.before), percent(errors.after)
    same = "" if errors.changed else _CHANCE
    parts.append(
        f"calls fail in {shares[0]} (same)"
        if shares[0] == shares[1]
        else f"calls fail in {' → '.join(shares)}{same}"
    )
    load = None if report.headline.change is None else report.headline.change.load_ratio
    if load is not None:
        parts.append(f"load {percent(load - 1, sign=True)}")
    return " · ".join(part.replace(" ", NBSP) for part in parts)


RECORDED_WHOLLY: Final = 0.9
"""Minimum share of a period's length that was recorded, in [0, 1], for the period to count as recorded
completely."""
_RANGE: Final = re.compile(r"(?<=[0-9Z])/(?=[0-9])")
"""Regular expression of the slash between the two instants in the text of a period."""
_CHANCE: Final = " (may be chance)"
"""Text after two values that do not differ significantly."""


def _who(finding: Finding, account: AccountSection) -> b.Words:
    """Line with the share of affected requests, their root types, and root types that are not affected."""
    hit: dict[str, int] = {}
    for member in finding.members:
        hit[member.root] = hit.get(member.root, 0) + member.requests1
    names = [name for name in sorted(hit, key=lambda name: -hit[name]) if hit[name]]
    all_known = len(finding.members) == finding.members_total and len(account.roots) == account.roots_total
    others = [row.root for row in account.roots if row.requests1 and row.root not in hit] if all_known else []
    said: list[b.Words] = [b.strong(f"{percent(finding.share1)} of the requests"), f": {_listed(names)}"]
    if others and names:
        said.append(b.dim(f".   Not affected: {_listed(others)}"))
    return said if names else said[:1]


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_ROOTS
    more = f" and {count(rest)} more" if rest > 0 else ""
    return ", ".join(clip(name, 60) for name in names[:_MOST_ROOTS]) + more


def _facts(
    report: Report,
    found: Sequence[Finding],
    lead: Finding | None,
    total: int,
    accounts: Accounts,
    word: str,
) -> Iterator[b.Fact]:
    """Yield the lines below the headline: facts about its finding and other findings or, without findings,
    the reasons and suspects."""
    verdict, mean = report.section(VerdictSection), accounts["mean"]
    if found:
        others = [one for one in found if one is not lead][: _MOST_OTHERS + (lead is None)]
        if lead is not None:
            yield from _of_finding(lead, accounts, word)
        for finding in others:
            yield b.Fact(f"{finding.rank}.", (finding.title, b.dim(f"; explains {_explains(finding, mean)}")))
        if (rest := total - len(others) - (lead is not None)) > 0:
            yield b.Fact("more", counted(rest, "finding"), "dim")
        if len(found) < report.section(FindingsSection).findings_total:
            return  # findings beyond the limit explain a part, too
        unexplained = 1 - sum(f.contribution_us for f in found) / ((mean.after - mean.before) or math.inf)
        if verdict.outcome == "partly-explained" and mean.changed and unexplained > 0:
            yield b.Fact("unexplained", f"{percent(unexplained)} of the change of the mean")
        return
    suspects = [one for part in report.sections if isinstance(part, SuspectsSection) for one in part.suspects]
    reasons = verdict.reasons[verdict.outcome == "cannot-tell" :]
    for reason in reasons[-1:] if suspects else reasons[:_MOST_REASONS]:
        yield b.Fact("why", reason.text)
    missing = verdict.missing_requests
    if missing is not None and all(reason.requests is None for reason in verdict.reasons):
        yield b.Fact("settles it", f"about {counted(missing, 'more request')}")
    for one in suspects:
        far = f"{significant(one.z, 2)} of the {significant(one.z_needed, 2)} standard errors needed"
        yield b.Fact("suspect", (one.title, b.dim(f"; {far}")))


def _of_finding(finding: Finding, accounts: Accounts, word: str) -> Iterator[b.Fact]:
    failing = _explains_failing(finding, accounts["errors"]) if word == "FAILING" else ""
    yield b.Fact("explains", failing or _explains(finding, accounts["mean"]))
    if finding.explanation is not None:
        if finding.explanation.reliable:
            yield b.Fact("only", _only(finding.explanation))
        for one, place in _changed_with(finding.explanation.identifiers)[:_MOST_CHANGED_WITH]:
            what = f"{place} {one.key}".strip()
            yield b.Fact("with", f"{what} {clip(one.before, 40)} → {clip(one.after, 40)}")
    if finding.factors:
        first = finding.factors[0]  # values tested together have the same effect
        pair = [one for one in finding.factors if one.effect_here == first.effect_here and one.p == first.p]
        yield b.Fact("where", " and ".join(f"{one.attribute} = {one.value}" for one in pair))
    if finding.suspect:
        yield b.Fact("look at", b.strong(finding.suspect))
    if finding.evidence:
        yield b.Fact(
            "sure", f"{significant(abs(finding.evidence[0].z), 2)} × ordinary variation (3 is enough)"
        )
    yield from _see(finding)


def _explains_failing(finding: Finding, errors: Account) -> str:
    """Share of a finding in the rise of requests with a failing call, as text; empty if that share did not
    rise significantly."""
    whole, part = errors.after - errors.before, finding.share1 - finding.share0
    if not errors.changed or whole <= 0 or part <= 0:
        return ""
    more = f"{significant(100 * whole, 2)} points more with a failing call"
    return f"{percent(min(part / whole, 1.0))} of the {more}"


def _explains(finding: Finding, mean: Account) -> str:
    """Part of a finding in the change of the mean as text, with numbers that readers can check by hand."""
    part, whole = finding.contribution_us, mean.after - mean.before
    if not mean.changed or not whole:
        return f"{wording.change(part)} on the mean; what the whole mean did may be chance"
    of = f"{wording.change(part)} of {wording.change(whole)} on the mean"
    if part / whole < 0:
        return f"{wording.change(part)} on the mean, which {'rose' if whole > 0 else 'fell'}"
    if part / whole > 1:
        others = "saved" if whole > 0 else "added"
        return f"all of it: {of}; all else together {others} {wording.duration(abs(part - whole))}"
    return f"{percent(part / whole)}: {of}"


def _only(explanation: Explanation) -> b.Words:
    """Rule that selects most of the affected requests and fewest of the others, as text with both shares."""
    contrast = explanation.contrast

    def shares(rule: Rule) -> tuple[float, float]:
        return rule.n_affected / max(contrast.n_affected, 1), rule.n_others / max(contrast.n_others, 1)

    rules = [rule for rule in explanation.rules if rule.conditions]
    if not rules:
        return differs(explanation)
    best = explanation.best or max(rules, key=lambda rule: shares(rule)[0] - shares(rule)[1])
    hit, other = shares(best)
    return (
        b.code(" and ".join(best.conditions)),
        f"   {percent(hit)} of the affected, {percent(other)} of the others",
    )


def _changed_with(identifiers: Sequence[ChangedIdentifier]) -> list[tuple[ChangedIdentifier, str]]:
    """Identifiers (e.g. versions) that changed with the period, each with the operation or component that has
    it. Identifiers whose values before and after are most similar come first, since versions are similar.

    Identifiers with several values, e.g. ids that are new after every start, are listed only if there are no
    others.
    """
    places: dict[tuple[str, str, str], list[ChangedIdentifier]] = {}
    for one in identifiers:
        places.setdefault((one.key, one.before, one.after), []).append(one)

    single = {key: of for key, of in places.items() if ", " not in key[1] + key[2]}

    def unlike(of: Sequence[ChangedIdentifier]) -> float:
        return -SequenceMatcher(None, of[0].before, of[0].after, autojunk=False).ratio()

    found = []
    for alike in sorted((single or places).values(), key=unlike):
        first, *others = (one.where.split("/") for one in alike)
        shared = sum(all(words[:n] == first[:n] for words in others) for n in range(1, len(first)))
        found.append((alike[0], "/".join(first[:shared] if others else first)))
    return found


def _see(finding: Finding) -> Iterator[b.Fact]:
    """Yield a line with the command that draws an affected request, and a reference request to compare it
    with."""
    after = next((e for e in finding.examples if e.sample == "problem"), None)
    if after is None:
        return
    before = next((e for e in finding.examples if e.sample == "reference"), None)
    command = next((view.command for view in finding.views if view.method == "flow"), "")
    beside: list[b.Words] = [f"   ({wording.duration(after.response_us)}"]
    if before is not None:
        beside += ["; before: ", _request(before), f", {wording.duration(before.response_us)}"]
    yield b.Fact("see", (b.code(command) if command else ("request ", _request(after)), *beside, ")"))


def _request(example: Example) -> b.Words:
    return b.request_link(example.request_id)


def _periods(samples: Sequence[SampleSummary], rates: Sequence[float]) -> b.Words:
    """Line with both periods: time, number of requests, and requests per second of recorded time; it says so
    if a period was not recorded completely."""
    parts = []
    for name, sample, rate in zip(("before", "after"), samples, rates, strict=True):
        where = f" where {sample.where}" if sample.where else ""
        when = _RANGE.sub(" to ", sample.text)
        text = f"{name} {when}{where}, {counted(sample.requests, 'request')}"
        if rate > 0:
            share = sample.weighted_requests / rate * NS_PER_SECOND / max(sample.end_ns - sample.start_ns, 1)
            part = " while recorded" if share < RECORDED_WHOLLY else ""
            text += f", {significant(rate)} a second{part}"
        parts.append(text)
    return "; ".join(parts)
