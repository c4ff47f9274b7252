"""Display of findings as cards: the most important facts first, evidence folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from analyze.methods.robust.kind_words import KIND_WORDS
from analyze.report import blocks as b
from analyze.report import measures
from analyze.report.bars import Axis, shift
from analyze.report.drawing.charts import histogram
from analyze.report.drawing.train_schedule import schedule_blocks
from analyze.report.section_view import SectionView
from analyze.report.steps import steps_blocks
from analyze.report.when import when_words
from analyze.report.wording import (
    clip,
    count,
    counted,
    duration,
    factor,
    moves,
    p_value,
    percent,
    significant,
)
from schemas.report.columns import columns_of
from schemas.report.explanations import AttributeRow, Explanation, LevelShare, Rule
from schemas.report.findings import (
    ChangeKind,
    Evidence,
    EvidenceRow,
    Example,
    Factor,
    Finding,
    FindingsSection,
    FurtherView,
    Interval,
    Site,
)

INDEXED: Final = 3
"""Number of findings above which a page shows an index before the cards."""
PRINTED: Final = 5
"""Maximum number of findings printed on a terminal."""
CHAIN: Final = 2
"""Maximum number of consequences named in a card's line; the others are folded."""
_MOST_Q: Final = 1e-12
"""q-value below which a text shows `< 1e-12` instead of the value."""

_EVIDENCE: Final = (
    b.Column("", "Call site", "text", lambda row: _follows(row.evidence)),
    b.Column("", "What", "text", lambda row: (kind_tag(row.evidence.kind), " ", clip(row.evidence.what, 80))),
    b.Column("", "Before → after", "figure", lambda row: moved(row.evidence)),
    b.Column("", "Change, 95 %", "figure", lambda row: interval(row.evidence), far=1),
    b.Column("", "× noise", "figure", lambda row: significant(abs(row.evidence.z), 2), far=1),
    *columns_of(EvidenceRow, "requests{}", "q", "contribution_us"),
)
_MEMBERS: Final = (
    b.Column("root", "Root type", "name"),
    b.Column("category", "Category", "key"),
    b.Column("requests{}", "Requests", "count"),
)
_ATTRIBUTES: Final = (
    b.Column(
        "key", "Parameter", "text", lambda a: (b.strong(clip(a.key, 80)), " ", b.dim(clip(a.where, 96)))
    ),
    b.Column("", "Affected", "text", lambda a: _values(a, a.median_affected, "share_affected")),
    b.Column("", "Others", "text", lambda a: _values(a, a.median_others, "share_others")),
    b.Column("", "", "bar", lambda a: Axis(0.0, 1.0).share(a.distance, f"{significant(a.distance, 2)} of 1")),
    b.Column("distance", "Unlike by", "figure", lambda a: significant(a.distance, 2)),
    b.Column("q", "q", "p", far=1),
)


def foremost(parts: Sequence[float], most: int) -> list[int]:
    """Indices of the findings to show: the first `most`; the finding with the largest absolute part takes the
    last place if it comes later.

    Improvements rank last, but may account for most of the change of the mean. parts: part of the change of
    each finding.
    """
    largest = max(range(len(parts)), key=lambda at: abs(parts[at]), default=0)
    if not most or largest < most:
        return [*range(min(most, len(parts)))]
    return [*range(most - 1), largest]


def findings_blocks(section: FindingsSection) -> b.Blocks:
    """Display of the section: an index if there are more than INDEXED findings, then one card per finding."""
    found = tuple(f for f in section.findings if not (section.only == "worse" and f.is_better))
    better = section.better_total if section.only == "worse" else 0
    total = section.findings_total - better
    note = "each cause once, most important first" if found else ""
    if len(found) < total:
        note += f"; {count(len(found))} of {count(total)}, the table findings beside this page has all"
    index = b.Items(
        [(b.Styled(f.title, href=f"#f{f.rank}"), " ", b.dim(part_sentence(f))) for f in found], ordered=True
    )
    cards = [_card(finding, part_unknown(finding, section.insignificant_mean)) for finding in found]
    printed = foremost([finding.contribution_us or 0.0 for finding in found], PRINTED)
    verb = "is" if better == 1 else "are"
    rest = f"{counted(better, 'finding')} for the better {verb} not shown, as asked." if better else ""
    more = total - len(printed)
    return (
        b.Only(
            "page",
            (
                b.Part(
                    "Findings",
                    (
                        *((index,) if len(found) > INDEXED else ()),
                        *(cards or (b.Text("None."),)),
                        *((b.Text(rest, "dim"),) if rest else ()),
                    ),
                    note=note,
                    anchor="findings",
                ),
            ),
        ),
        b.Only(
            "terminal",
            (
                *(cards[at] for at in printed),
                *((b.Text(f"\nand {counted(more, 'more finding')}", "dim"),) if more else ()),
                *((b.Text(f"\n{rest}", "dim"),) if rest else ()),
            ),
        ),
    )


def alone(finding: Finding, section: FindingsSection) -> tuple[b.Blocks, b.Blocks]:
    """Display of one finding without card and title: (most important facts, folded details)."""
    return _glance(finding, part_unknown(finding, section.insignificant_mean)), tuple(_details(finding))


def _card(finding: Finding, unknown: str) -> b.Part:
    """Card of a finding. unknown: reason why the finding has no share of the change of the mean; empty if it
    has one."""
    return b.Part(
        (f"{finding.rank}. ", b.finding_link(finding.title, finding.rank)),
        (*_glance(finding, unknown), *_details(finding)),
        anchor=f"f{finding.rank}",
        look="card",
    )


def _glance(finding: Finding, unknown: str) -> b.Blocks:
    """Most important facts of a finding, for a person on call. unknown: reason why the finding has no share
    of the change of the mean; empty if it has one."""
    glance: list[b.Block] = [_numbers(finding, unknown)]
    if finding.histogram is not None:
        glance.append(histogram(finding.histogram))
    return (
        b.Only("page", (b.Text(_where(finding.kind, finding.site)), b.Beside(glance))),
        b.Only("terminal", tuple(_printed(finding, unknown))),
        b.Facts(list(_facts(finding))),
        b.Only("page", (b.Facts(list(_more_facts(finding))),)),
        *(b.Only("terminal", further(finding.views)) for _ in finding.views[:1]),
    )


def _where(kind: ChangeKind, site: Site) -> b.Words:
    """Label of a kind of change, and the name of its call site."""
    return (kind_tag(kind), " ", b.strong(site.component), f"/{site.operation}", b.dim(whence(site)))


def _numbers(finding: Finding, unknown: str) -> b.Facts:
    f = finding
    values = (
        f"{measures.value(f.unit, f.before)} → ",
        b.strong(measures.value(f.unit, f.after)),
        b.Styled(interval(f), "span"),
        shift(f.unit, f.before, f.after, f.change),
    )
    share: list[b.Words] = [b.strong(amount(f))]
    if sentence := share_sentence(f):
        share.append(b.Styled(sentence, "span"))
        if f.share_of_change is not None:
            bounds = Axis(0.0, 1.0)
            both = bounds.stretch("quiet", f.share_of_change.low, f.share_of_change.high)
            share.append(b.Bar((bounds.stretch("mark", 0.0, f.share_of_change.low), both), sentence))
    elif unknown:
        share.append(b.Styled(unknown, "span"))
    affected = (f"{count(f.affected0)} → ", b.strong(count(f.affected1)))
    what = KIND_WORDS[f.kind].numbers + (": expected from its siblings → seen" if f.factors else "")
    return b.Facts(
        (
            b.Fact(what, values),
            b.Fact("part of the change of the mean", share),
            b.Fact(
                "requests affected",
                (*affected, b.Styled(f"{percent(f.share0)} → {percent(f.share1)} of all", "span")),
            ),
            b.Fact("sure", sureness(f)),
        ),
        look="numbers",
    )


def _printed(finding: Finding, unknown: str) -> Iterator[b.Block]:
    """Yield a finding's numbers as printed on a terminal."""
    part = f": {share}" if (share := share_sentence(finding)) else f"; {unknown}" if unknown else ""
    yield b.Text(f"{moved(finding)} ({interval(finding)}), {amount(finding)}{part}")
    after = counted(finding.affected1, "request")
    shown = f"{count(finding.affected0)} → {after} affected ({percent(finding.share1)} of all)"
    yield b.Text(f"{shown}; sure: {sureness(finding)}", "dim")


def _facts(finding: Finding) -> Iterator[b.Fact]:
    """Yield a finding's facts that are shown everywhere: on terminals, in Markdown and on pages."""
    f = finding
    if f.explanation is not None:
        yield b.Fact("what differs", differs(f.explanation), "strong" if f.explanation.reliable else "dim")
    for one in f.factors:
        there = f" {counted(one.requests1, 'request')} there"
        yield b.Fact("where", (factor_sentence(one), b.Styled(there, "dim", title=f"p = {p_value(one.p)}")))
    if f.chain:
        steps = "; ".join(step.rstrip(".") for step in f.chain[:CHAIN])
        left = len(f.chain) - CHAIN
        yield b.Fact("then", steps + (f"; and {count(left)} more" if left > 0 else ""))
    if f.when is not None and (f.when.began or f.when.ended):
        yield b.Fact("when", when_words(f.when))
    look: list[b.Words] = [b.strong(f.suspect)] if f.suspect else []
    look += [("request ", _example(e)) for e in f.examples if e.sample == "problem"][:1]
    if look:
        yield b.Fact("look first at", b.joined(look))


def _more_facts(finding: Finding) -> Iterator[b.Fact]:
    """Yield a finding's facts that are shown on pages only."""
    f = finding
    first = next((e for e in f.examples if e.sample == "problem"), None)
    if others := [(f"{e.sample} ", _example(e)) for e in f.examples if e is not first]:
        yield b.Fact("other requests", b.joined(others))
    for one in () if f.explanation is None else f.explanation.identifiers:
        values = (b.code(clip(one.before, 60)), " → ", b.code(clip(one.after, 60)))
        place = f" of {one.where}" if one.where else ""
        yield b.Fact("changed with it", (b.strong(one.key), f"{place}, ", *values))
    if not (f.when and (f.when.began or f.when.ended)) and f.first_window_ns is not None:
        began = datetime.fromtimestamp(f.first_window_ns / 1e9, UTC)
        yield b.Fact("first seen", f"{began:%Y-%m-%d %H:%MZ}")


def _example(example: Example) -> b.Words:
    note = f" ({example.what}, {duration(example.response_us)})"
    return (b.request_link(example.request_id), b.dim(note))


def _drawn(example: Example, rank: int) -> Iterator[b.Block]:
    if example.schedule is not None:
        yield b.Text((f"{example.sample.capitalize()}: ", _example(example)))
        yield from schedule_blocks(example.schedule, f"Request of finding {rank}, {example.sample}")


def _details(finding: Finding) -> Iterator[b.Block]:
    f = finding
    if f.views:
        views = [_view(view) for view in f.views]
        yield b.Details("Look further, with other analyses", (b.Items(views),))
    if f.chain[CHAIN:]:
        yield b.Details("All that follows from it", (b.Items(f.chain, ordered=True),))
    if f.account is not None:
        steps = steps_blocks(f.account, f"Steps of finding {f.rank}", names=False)
        yield b.Details("Where the time went, on a typical path", steps, open=f.rank == 1)
    if drawn := [part for example in f.examples for part in _drawn(example, f.rank)]:
        yield b.Details(
            "Its example requests, drawn: who worked when, and what the response waited for", drawn
        )
    if f.explanation is not None and (f.explanation.rules or f.explanation.attributes):
        yield b.Details("What distinguishes affected requests", tuple(_explained(f.explanation)))
    if f.evidence:
        tests = f"Evidence: {counted(f.evidence_total, 'test')}"
        rows = [EvidenceRow(f.rank, place, evidence) for place, evidence in enumerate(f.evidence, 1)]
        table = b.Grid(f"Evidence of finding {f.rank}", _EVIDENCE, rows, f.evidence_total, "evidence")
        yield b.Details(tests, (table,))
    if f.members:
        paths = b.Grid(f"Paths of finding {f.rank}", _MEMBERS, f.members, f.members_total)
        yield b.Details(f"Paths it occurs in: {count(f.members_total)}", (paths,))


def _view(view: FurtherView) -> b.Words:
    name: b.Words = b.strong(view.method) if view.page is None else b.Styled(view.method, href=view.page)
    return (name, b.dim(f" {view.about} "), b.code(view.command))


def _explained(found: Explanation) -> Iterator[b.Block]:
    if found.rules:
        of = found.contrast
        about = f"{count(of.n_affected)} {of.affected}, {count(of.n_others)} {of.others}"
        about += "" if found.auc is None else f"; AUC {significant(found.auc, 2)} (0.5: chance, 1: all right)"
        if found.root_stability is not None:
            about += f", the first split in {percent(found.root_stability)} of repeated trees"
        yield b.Part("Rules", (b.Items([_rule(rule) for rule in found.rules]),), note=about)
    if found.attributes:
        table = b.Grid("Parameters", _ATTRIBUTES, found.attributes, found.attributes_total)
        yield b.Part("Parameters", (table,), note="most different first")
    if found.competing:
        yield b.Text(f"As good at the first split: {', '.join(found.competing)}.", "dim")
    if found.excluded:
        yield b.Text(f"Left out as asked: {', '.join(found.excluded)}.", "dim")


def _rule(rule: Rule) -> b.Words:
    requests = f" {count(rule.n_affected)} affected, {count(rule.n_others)} others "
    purity = f"(purity {percent(rule.purity)}, lift {factor(rule.lift)})"
    return (b.code(" and ".join(rule.conditions) or "everything else"), requests, b.dim(purity))


def _values(row: AttributeRow, median: float | None, share: str) -> b.Words:
    if row.numeric:
        return "–" if median is None else f"median {significant(median)}"

    def level(one: LevelShare) -> b.Words:
        return (clip(one.value, 40), b.dim(f" {percent(getattr(one, share))}"))

    return b.joined(map(level, row.levels))


def _follows(evidence: Evidence) -> b.Words:
    cause = evidence.consequence_of
    why = f"follows from row {(cause or 0) + 1}: {evidence.relation}"
    mark: b.Words = "" if cause is None else b.Styled("↳ ", "dim", title=why)
    return (mark, clip(evidence.site.text, 96), b.dim(clip(whence(evidence.site), 96)))


def kind_tag(kind: ChangeKind) -> b.Styled:
    """Coloured label of a kind of change."""
    words = KIND_WORDS[kind]
    return b.tag(words.tag, words.tone)


def whence(site: Site) -> str:
    """Phrase for a site's caller, or for the trace point where a step begins, e.g. `, from cart/GET /cart`;
    empty for a root."""
    if site.caller is not None:
        return f", from {site.caller.text}"
    return f", from {count(site.callers)} callers" if site.callers > 1 else ""


def moved(thing: Finding | Evidence) -> str:
    """Values before and after as text, e.g. `12.1 ms → 264 ms`."""
    return measures.moved(thing.unit, thing.before, thing.after)


def interval(thing: Finding | Evidence) -> str:
    """95 % confidence interval of the change as text, e.g. `+238 to +266 ms`."""
    return measures.span(thing.unit, thing.change)


def amount(finding: Finding) -> str:
    """Part of the change of the mean response time as text, e.g. `+99.2 ms on the mean`."""
    return f"{measures.shift('us', finding.contribution_us)} on the mean"


def share_sentence(finding: Finding) -> str:
    """Phrase for a finding's share of all time added or saved, e.g. `82 % (78 to 86 %) of all that got
    slower`.

    Empty if the mean did not change significantly or changed in the opposite direction, or if requests end
    early because they fail.
    """
    fails_early = finding.kind is ChangeKind.ERRORS and finding.contribution_us < 0
    if finding.share_of_change is None or not finding.contribution_us or fails_early:
        return ""
    whole = "all that got slower" if finding.contribution_us > 0 else "all that got faster"
    span, estimate = measures.share_span(finding.share_of_change), percent(finding.share_estimate)
    known = "" if finding.share_estimate is None or estimate == span else f"{estimate} ("
    return f"{known}{span}{')' if known else ''} of {whole}"


def part_unknown(finding: Finding, mean: Interval | None) -> str:
    """Reason why a finding has no share of the change of the mean; empty if it has one. mean: confidence
    interval of the change of the mean if that is not significant, otherwise None."""
    if mean is None or not moves(finding.contribution_us):
        return ""
    sure = mean.low > 0 or mean.high < 0  # at 95 %; significance demands more
    return f"the change of the mean {'may be chance' if sure else 'is not significant'}"


def part_sentence(finding: Finding) -> str:
    """Phrase for a finding's part of the change of the mean: its share (`share_sentence`) or, if that is
    empty, its `amount`."""
    return share_sentence(finding) or amount(finding)


def sureness(finding: Finding) -> str:
    """Strength of the evidence for a finding's leading change as text, e.g. `41 × ordinary variation (q <
    1e-12)`."""
    value = "< 1e-12" if finding.q < _MOST_Q else f"= {p_value(finding.q)}"
    if not finding.evidence:
        return f"q {value}"
    return f"{significant(abs(finding.evidence[0].z), 2)} × ordinary variation (q {value})"


def factor_sentence(found: Factor) -> str:
    """Sentence on an attribute value to which a change is limited, e.g. `service.version = v2: +252 ms;
    elsewhere: +0.3 ms.`"""
    here = measures.shift(found.unit, found.effect_here)
    elsewhere = measures.shift(found.unit, found.effect_elsewhere)
    return f"{found.attribute} = {found.value}: {here}; elsewhere: {elsewhere}."


def differs(explanation: Explanation) -> str:
    """Sentence on attributes that reliably distinguish affected requests, or that changed with the period; if
    there are none, why."""
    if explanation.reliable or explanation.identifiers:
        sentence = explanation.sentence.strip()
        return sentence if not sentence or sentence[-1] in ".!?" else f"{sentence}."
    return {
        "no-parameters": "no parameters were recorded.",
        "too-few": "too few requests to tell.",
        "unstable": f"nothing stable ({', '.join(explanation.competing[:2])} compete)."
        if explanation.competing
        else "nothing stable.",
    }.get(explanation.reason, "no recorded parameter sets the affected requests apart.")


def further(views: Sequence[FurtherView]) -> b.Blocks:
    """Further analyses of a finding on a terminal: the command of the first one, and the names of the
    others."""
    others = ", ".join(view.method for view in views[1:])
    there = f" ({others}: on the page)" if others else ""
    return (b.Text(f"Look further{there}:", "dim"), b.Text(views[0].command, "pre"))


FINDINGS: Final = SectionView(FindingsSection, findings_blocks)
