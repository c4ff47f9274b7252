"""Show how the change of each measure breaks down: a waterfall a measure, then load and root types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from analyze.methods.robust.sections.findings import whence
from analyze.report import blocks as b
from analyze.report import measures, wording
from analyze.report.bars import waterfall
from analyze.report.section_view import SectionView
from schemas.report.accounts import Account, AccountRow, AccountSection
from schemas.report.findings import Interval

# How a breakdown is shown. No settings: a stored report has all rows, and reads the same for everybody.
PLACES: Final = 10
"""Call sites with a row of their own."""
PRINTED: Final = 3
"""The same on a terminal."""
MATERIAL: Final = 0.01
"""A call site with less than this share of all that moved has no row of its own."""
PART: Final = 0.02
"""A kind of change with less than this share of all that moved is not named."""
LOAD_MOVED: Final = 1.1
"""Rates nearer than this factor are called about the same."""

_ROOTS: Final = (
    b.Column("root", "Root type", "name"),
    b.Column("requests{}", "Requests", "count"),
    b.Column("rate{}", "A second", "number", far=1),
    b.Column("mean{}_us", "Mean response time", "us"),
    b.Column("errors{}", "Failed at the root", "share"),
)


@dataclass(frozen=True, slots=True)
class WaterfallRow:
    """One row of the waterfall: a call site, the mix, or all other call sites together."""

    row: AccountRow | None
    """None: the mix, or the rest."""
    text: str
    """What it is called where it is no call site."""
    calls: float
    structure: float
    slower: float
    total: float


def breakdown_blocks(section: AccountSection) -> b.Blocks:
    """Show a waterfall a measure, then load and root types."""
    changed = [account for account in section.accounts if account.changed]
    first = changed[0] if changed else None
    # What did not change significantly is noise, call site by call site: it is there for who asks.
    measured: list[b.Block] = [_measure(account, account is first) for account in section.accounts]
    if first is not None and all(row.finding is None for row in first.rows):
        measured.append(b.Only("terminal", (_waterfall(first, PRINTED),)))
    mean = section.accounts[0] if section.accounts else None
    mix = () if mean is None or len(mean.mixes) < 2 else (_mix(mean),)
    roots = b.Grid("Root types before and after", _ROOTS, section.roots, section.roots_total)
    return (
        b.Part(
            "Where the change came from",
            (
                *measured,
                b.Text(load(section)),
                b.Details("Root types: load, mean and errors of each", (roots,)),
                *mix,
            ),
            note="the parts add up exactly",
            anchor="account",
        ),
    )


def _measure(account: Account, first: bool) -> b.Part:
    label = b.tag(verdict(account), "worse" if account.changed else "")
    head = (f"{title(account)}: {moved(account)} ", label)
    note = f"{interval(account)}. {parts(account)}" if first else ""
    if not (first or account.low is None or account.high is None):
        note = interval(account)
    return b.Part(head, (b.Only("page", (_waterfall(account, PLACES),)),), note=note, open=first)


def _mix(account: Account) -> b.Details:
    columns = (
        b.Column("root", "Root type", "name"),
        b.Column("share{}", "Share of the requests", "share"),
        b.Column("part", "Contribution", "figure", lambda row: part(account, row.part)),
    )
    whole = part(account, account.mix) or "no part"
    return b.Details(
        f"Workload mix: {whole} of the change", (b.Grid("Workload mix", columns, account.mixes),)
    )


def _waterfall(account: Account, most: int) -> b.Grid:
    """Draw rows from the value before to the value after, each with its bar."""
    found = lines(account, most)
    fall = waterfall(account.before, [line.total for line in found], account.low, account.high)
    bars = {id(line): stretch for line, stretch in zip(found, fall.parts, strict=True)}
    before = WaterfallRow(None, "Before", 0.0, 0.0, 0.0, account.before)
    after = WaterfallRow(None, "After", 0.0, 0.0, 0.0, account.after)
    ends: dict[int, tuple[b.Stretch, ...]] = {
        id(before): (fall.before,),
        id(after): (fall.after, *(() if fall.interval is None else (fall.interval,))),
    }

    def worded(line: WaterfallRow, amount: float) -> str:
        return measures.value(account.unit, line.total) if id(line) in ends else part(account, amount)

    def bar(line: WaterfallRow) -> b.Bar:
        text = line.text or line.row.site.text if line.row is not None else line.text
        return b.Bar(ends.get(id(line)) or (bars[id(line)],), f"{text}: {worded(line, line.total)}")

    several = len({line.row.root for line in found if line.row is not None}) > 1
    named = Counter(line.row.site.text for line in found if line.row is not None)
    columns = (
        b.Column("", "Call site", "text", lambda line: _place(line, named)),
        b.Column(
            "", "" if fall.start <= 0 else f"from {measures.value(account.unit, fall.start)} on", "bar", bar
        ),
        b.Column("", "Contribution", "figure", lambda line: worded(line, line.total)),
        b.Column("", "number of calls", "figure", lambda line: part(account, line.calls), far=1),
        b.Column("", "paths", "figure", lambda line: part(account, line.structure), far=1),
        b.Column("", "time a call", "figure", lambda line: part(account, line.slower), far=1),
        b.Column("", "Finding", "figure", _finding),
        *((b.Column("", "In requests of", "text", _root, far=2),) if several else ()),
    )
    return b.Grid(
        f"{title(account)} by call site",
        columns,
        (before, *found, after),
        printed=len(found) + 2,
        tone=lambda line: "end" if id(line) in ends else _tone(line),
    )


def _place(line: WaterfallRow, named: Counter[str]) -> b.Words:
    """Name a call site; who calls where several have its name."""
    if line.row is None:
        return line.text
    site = line.row.site
    caller = b.dim(wording.clip(whence(site), 96)) if named[site.text] > 1 else ""
    return (b.strong(site.component), "/", wording.clip(site.operation, 110), caller)


def _root(line: WaterfallRow) -> b.Words:
    return b.dim(wording.clip(line.row.root, 60)) if line.row is not None and line.row.site.depth else ""


def _finding(line: WaterfallRow) -> b.Words:
    rank = None if line.row is None else line.row.finding
    return "" if rank is None else b.Styled(str(rank), "tag", href=f"#f{rank}", title=f"finding {rank}")


def _tone(line: WaterfallRow) -> str:
    way = "up" if line.total > 0 else "down" if line.total < 0 else ""
    return way if line.row is not None else f"{way} sum".strip()


def title(account: Account) -> str:
    """Name what is broken down: `Mean response time`."""
    if account.measure == "mean":
        return "Mean response time"
    if account.measure == "errors":
        return "Requests with a failing call"
    over = "" if account.threshold_us is None else f" over {wording.duration(account.threshold_us)}"
    return f"Slow requests{over}"


def moved(account: Account) -> str:
    """Say `86.2 ms → 205 ms`."""
    return measures.moved(account.unit, account.before, account.after)


def interval(account: Account) -> str:
    """Say `+110 to +124 ms`."""
    if account.low is None or account.high is None:
        return measures.NO_INTERVAL
    return measures.span(account.unit, Interval(low=account.low, high=account.high))


def verdict(account: Account) -> str:
    """Say `changed`, `not significant`, or that there is no test."""
    if account.changed:
        return "changed"
    return "not testable" if account.low is None or account.high is None else "not significant"


def parts(account: Account) -> str:
    """Say what kinds of change it is made of: `Slower calls +101 ms, more calls +18 ms, workload mix +540
    µs.`"""
    named = (
        ("slower calls" if account.slower > 0 else "faster calls", account.slower),
        ("more calls" if account.calls > 0 else "fewer calls", account.calls),
        ("other paths", account.structure),
        ("workload mix", account.mix),
    )
    if account.measure == "errors":
        named = (("failing more often", account.slower), *named[1:])
    named_parts = [
        f"{name} {part(account, amount)}"
        for name, amount in sorted(named, key=lambda pair: -abs(pair[1]))
        if part(account, amount) and abs(amount) >= PART * (account.gross_up - account.gross_down)
    ]
    text = ", ".join(named_parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def lines(account: Account, most: int) -> tuple[WaterfallRow, ...]:
    """Choose the mix, at most `most` call sites by |total| that are worth a row, and the rest; their
    totals add up to the change."""
    least = MATERIAL * max(account.gross_up - account.gross_down, 0.0)
    shown = [row for row in account.rows[:most] if row.total and abs(row.total) >= least]
    places = [WaterfallRow(row, "", row.calls, row.structure, row.slower, row.total) for row in shown]
    mix = (WaterfallRow(None, "Workload mix", 0.0, 0.0, 0.0, account.mix),) if account.mix else ()
    return (*mix, *places, *_rest(account, places))


def _rest(account: Account, places: Sequence[WaterfallRow]) -> tuple[WaterfallRow, ...]:
    left = account.rows_total - len(places)
    if left <= 0:
        return ()
    calls = account.calls - sum(line.calls for line in places)
    structure = account.structure - sum(line.structure for line in places)
    slower = account.slower - sum(line.slower for line in places)
    text = wording.counted(left, "other call site")
    return (WaterfallRow(None, text, calls, structure, slower, calls + structure + slower),)


def part(account: Account, amount: float) -> str:
    """Say `+99.2 ms`, `+3.4 points`; empty for nothing, or for less than is shown."""
    text = measures.shift(account.unit, amount)
    return "" if not amount or text[:1] not in "+−" else text


def load(section: AccountSection) -> str:
    """Say one sentence about the arrival rate."""
    before, after = section.rate0, section.rate1
    rates = wording.significant(before), wording.significant(after)
    if not before or not after:
        return f"Load: {' → '.join(rates)} requests a second."
    ratio = after / before
    if 1 / LOAD_MOVED <= ratio <= LOAD_MOVED:
        return f"Load about the same: {' → '.join(rates)} requests a second."
    moved = wording.moved_sentence("Load", *rates, up=ratio > 1)
    return f"{moved} requests a second ({wording.factor(ratio)})."


BREAKDOWN: Final = SectionView(AccountSection, breakdown_blocks)
