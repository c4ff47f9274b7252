"""Breakdown of the change of each measure by call site, with parts that add up exactly. Displayed as one
waterfall chart per measure, then load and root types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.robust.causes.contributions import Contributions
from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.sections.finding_rows import site_of
from analyze.methods.robust.sections.findings import whence
from analyze.profile.breakdown import ExactAccount, MeasuredRows, account_rows, exact_account, root_requests
from analyze.profile.names import NO_CALLER, Names
from analyze.profile.profile import Profile
from analyze.report import blocks as b
from analyze.report import measures, wording
from analyze.report.bars import waterfall
from analyze.report.limits import ReportLimits
from analyze.report.section_view import SectionView
from analyze.stats.sums import totals_by_side
from schemas.arrays import B1
from schemas.report.accounts import Account, AccountedMeasure, AccountRow, AccountSection, MixRow, RootChange
from schemas.report.findings import Interval, Site

_US = 1e-3


def exact_breakdown(run: RobustRun, measure: AccountedMeasure) -> ExactAccount:
    """Break the change of a measure down into parts of call sites that add up exactly.

    "mean": mean response time in ns; "tail": share of requests over the run's threshold, by where they spend
    their time; "errors": share of requests with a failing call, by the site at which the failure began.
    """
    periods = (run.roles.reference, run.roles.problem)
    if measure == "errors":
        rows = error_rows(run.profile, *periods)
    else:
        rows = account_rows(run.profile, *periods, "over" if measure == "tail" else "critical_ns")
    return exact_account(rows, root_requests(run.profile, *periods))


def error_rows(profile: Profile, reference: B1, problem: B1) -> MeasuredRows:
    """Rows of the breakdown of the share of requests with a failing call, one per root type and call site
    where failures began.

    reference, problem: bool[slots], masks of time slots. Each request counts as one call of the site, so that
    no part of the change is due to the number of calls.
    """
    requests = root_requests(profile, reference, problem)
    origins = profile.origins
    root, site, slot, w = (origins[name].to_numpy() for name in ("root", "site", "slot", "w"))
    key, code = np.unique(root.astype(np.int64) << 32 | site, return_inverse=True)
    value = totals_by_side(code, w, slot, (reference, problem), len(key))
    calls = requests[key >> 32]
    return MeasuredRows(key >> 32, key & 0xFFFFFFFF, np.zeros(len(key), np.int64), calls, value)


def accounted_rows(exact: ExactAccount, found: Contributions) -> dict[tuple[int, int], int]:
    """Finding of each row in the breakdown of the mean: (root type, calling path) -> rank of the finding that
    accounts for most of the row; rows without a finding have no entry."""
    parts, number = exact.parts, found.cause
    return {
        (int(parts.root[at]), int(parts.place[at])): int(number[at]) + 1
        for at in np.flatnonzero(number >= 0).tolist()
    }


def failed_rows(exact: ExactAccount, run: RobustRun) -> dict[tuple[int, int], int]:
    """Finding of each row in the breakdown of errors: (root type, call site) -> rank of the first finding
    with a change at the site's operation; rows without a finding have no entry."""
    sites = run.profile.names.sites
    first: dict[int, int] = {}
    for rank, cause in enumerate(run.causes, 1):
        for change in cause.changes:
            first.setdefault(sites[change.site].operation, rank)
    rows = zip(exact.parts.root.tolist(), exact.parts.place.tolist(), strict=True)
    return {(root, site): first[at] for root, site in rows if (at := sites[site].operation) in first}


def account_section(run: RobustRun, accounts: Sequence[Account], limits: ReportLimits) -> AccountSection:
    """Fill the section: breakdowns of all measures, load, and number of requests, load, mean and errors of
    each root type."""
    profile, roles = run.profile, run.roles
    table = profile.responses
    root, slot = table["root"].to_numpy(), table["slot"].to_numpy()
    sides, n_roots = (roles.reference, roles.problem), len(profile.names.roots)
    column = {
        name: totals_by_side(root, table[name].to_numpy(), slot, sides, n_roots)
        for name in ("n", "w", "ns", "failed")
    }
    seconds = [run.traffic.seconds(sample) for sample in (REFERENCE, PROBLEM)]
    roots, requests = profile.names.roots, column["n"].astype(np.int64).sum(axis=1).tolist()
    numbers = sorted(
        np.flatnonzero(column["n"].any(axis=1)).tolist(),
        key=lambda number: (-requests[number], roots[number]),
    )
    rows = [
        RootChange(
            root=roots[number],
            requests0=int(column["n"][number, 0]),
            requests1=int(column["n"][number, 1]),
            rate0=float(column["w"][number, 0] / seconds[0]),
            rate1=float(column["w"][number, 1] / seconds[1]),
            mean0_us=_ratio(column["ns"][number, 0] * _US, column["w"][number, 0]),
            mean1_us=_ratio(column["ns"][number, 1] * _US, column["w"][number, 1]),
            errors0=_ratio(column["failed"][number, 0], column["w"][number, 0]),
            errors1=_ratio(column["failed"][number, 1], column["w"][number, 1]),
        )
        for number in numbers[: limits.roots]
    ]
    return AccountSection(
        accounts=tuple(accounts),
        rate0=float(column["w"][:, 0].sum() / seconds[0]),
        rate1=float(column["w"][:, 1].sum() / seconds[1]),
        roots=tuple(rows),
        roots_total=len(numbers),
    )


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def account_of(
    found: ExactAccount,
    measure: AccountedMeasure,
    run: RobustRun,
    interval: tuple[float | None, float | None, bool],
    accounted: Mapping[tuple[int, int], int],
    limits: ReportLimits,
) -> Account:
    """Convert a breakdown to the model of the report, cut to the report's limits.

    interval: (low, high) confidence interval of the change, and True if the change is significant; accounted:
    (root type, calling path or call site) -> rank of the finding that accounts for the row.
    """
    names = run.profile.names
    scale = _US if measure == "mean" else 1.0
    by_path = measure != "errors"
    parts = found.parts
    total = parts.total
    order = np.argsort(-np.abs(total), kind="stable")
    order = order[total[order] != 0].tolist()
    rows = [
        AccountRow(
            site=_path_site(int(parts.place[at]), names) if by_path else site_of(int(parts.place[at]), names),
            root=names.roots[int(parts.root[at])],
            calls=float(parts.calls[at] * scale),
            structure=float(parts.structure[at] * scale),
            slower=float(parts.slower[at] * scale),
            total=float(total[at] * scale),
            finding=accounted.get((int(parts.root[at]), int(parts.place[at]))),
        )
        for at in order[: limits.categories]
    ]
    moved = (found.mix * scale).tolist()
    mixed = sorted(
        np.flatnonzero(found.shares.any(axis=1)).tolist(),
        key=lambda number: (-abs(moved[number]), names.roots[number]),
    )
    mixes = [
        MixRow(
            root=names.roots[number],
            share0=float(found.shares[number, 0]),
            share1=float(found.shares[number, 1]),
            part=moved[number],
        )
        for number in mixed[: limits.roots]
    ]
    every = np.concatenate([found.mix, total])
    return Account(
        measure=measure,
        unit="us" if measure == "mean" else "share",
        threshold_us=run.threshold_ns * _US if measure == "tail" else None,
        before=found.before * scale,
        after=found.after * scale,
        low=interval[0],
        high=interval[1],
        changed=interval[2],
        mix=float(found.mix.sum() * scale),
        calls=float(parts.calls.sum() * scale),
        structure=float(parts.structure.sum() * scale),
        slower=float(parts.slower.sum() * scale),
        gross_up=float(np.maximum(every, 0).sum() * scale),
        gross_down=float(np.minimum(every, 0).sum() * scale),
        rows=tuple(rows),
        rows_total=len(order),
        mixes=tuple(mixes),
    )


def _path_site(path: int, names: Names) -> Site:
    depth, above = 0, names.paths[path].above
    while above != NO_CALLER:
        depth, above = depth + 1, names.paths[above].above
    return site_of(names.paths[path].site, names).model_copy(update={"depth": depth})


# Display of a breakdown. Not settings: a stored report has all rows and is displayed alike everywhere.
PLACES: Final = 10
"""Maximum number of call sites with a row of their own in a waterfall on a page."""
PRINTED: Final = 3
"""Maximum number of call sites with a row of their own in a waterfall on a terminal."""
MATERIAL: Final = 0.01
"""Minimum share of a call site in the gross change, in [0, 1], for a row of its own in a waterfall."""
PART: Final = 0.02
"""Minimum share of a kind of part (calls, paths, times, mix) in the gross change, in [0, 1], for being named
in the text."""
LOAD_MOVED: Final = 1.1
"""Factor between two arrival rates up to which the text calls them about the same."""

_ROOTS: Final = (
    b.Column("root", "Root type", "name"),
    b.Column("requests{}", "Requests", "count"),
    b.Column("rate{}", "A second", "number", far=1),
    b.Column("mean{}_us", "Mean response time", "us"),
    b.Column("errors{}", "Failed at the root", "share"),
)


@dataclass(frozen=True, slots=True)
class WaterfallRow:
    """Row of a waterfall chart: a call site, the mix of root types, all other call sites, or the value before
    or after."""

    row: AccountRow | None
    """Row of the breakdown for a call site; None for a row that is no call site."""
    text: str
    """Label of a row that is no call site, e.g. `Workload mix`; empty for a call site."""
    calls: float
    """Part of `total` due to more or fewer calls, in the measure's unit (µs, or a share)."""
    structure: float
    """Part of `total` due to other call patterns, in the measure's unit (µs, or a share)."""
    slower: float
    """Part of `total` due to slower or faster (or failing) calls, in the measure's unit (µs, or a share)."""
    total: float


def breakdown_blocks(section: AccountSection) -> b.Blocks:
    """Display of the section: a waterfall chart per measure, then load and root types."""
    changed = [account for account in section.accounts if account.changed]
    first = changed[0] if changed else None
    # Rows of measures without a significant change are noise, but remain available to readers.
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
    note = "" if account.low is None or account.high is None else f"95 %: {interval(account)}"
    if first:
        note = f"{note or interval(account)}. {parts(account)}"
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
    """Waterfall chart as a table from the value before to the value after, with a bar in each row; at most
    `most` call sites have a row of their own."""
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
    """Name of a row's call site, with the caller if several rows have the same name. named: name of a call
    site -> number of rows with that name."""
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
    """Name of the breakdown's measure, e.g. `Mean response time`."""
    if account.measure == "mean":
        return "Mean response time"
    if account.measure == "errors":
        return "Requests with a failing call"
    over = "" if account.threshold_us is None else f" over {wording.duration(account.threshold_us)}"
    return f"Slow requests{over}"


def moved(account: Account) -> str:
    """Values of the measure before and after as text, e.g. `86.2 ms → 205 ms`."""
    return measures.moved(account.unit, account.before, account.after)


def interval(account: Account) -> str:
    """95 % confidence interval of the change as text, e.g. `+110 to +124 ms`."""
    if account.low is None or account.high is None:
        return measures.NO_INTERVAL
    return measures.span(account.unit, Interval(low=account.low, high=account.high))


def verdict(account: Account) -> str:
    """Significance of the change as text: `changed`, `not significant` or `not testable`."""
    if account.changed:
        return "changed"
    return "not testable" if account.low is None or account.high is None else "not significant"


def parts(account: Account) -> str:
    """Parts of the change by kind as text, largest first, e.g. `Slower calls +101 ms, more calls +18 ms,
    workload mix +540 µs.`"""
    named = (
        ("slower calls" if account.slower > 0 else "faster calls", account.slower),
        ("more calls" if account.calls > 0 else "fewer calls", account.calls),
        ("other paths", account.structure),
        ("workload mix", account.mix),
    )
    if account.measure == "errors":
        named = ((f"failing {'more' if account.slower > 0 else 'less'} often", account.slower), *named[1:])
    named_parts = [
        f"{name} {part(account, amount)}"
        for name, amount in sorted(named, key=lambda pair: -abs(pair[1]))
        if part(account, amount) and abs(amount) >= PART * (account.gross_up - account.gross_down)
    ]
    text = ", ".join(named_parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def lines(account: Account, most: int) -> tuple[WaterfallRow, ...]:
    """Rows of the waterfall chart, which add up to the change: the mix of root types, at most `most` call
    sites, largest first, and all other call sites together.

    Call sites below MATERIAL have no row of their own.
    """
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
    """Part of the change as text, e.g. `+99.2 ms` or `+3.4 points`; empty if it is 0 or rounds to 0."""
    text = measures.shift(account.unit, amount)
    return "" if not amount or text[:1] not in "+−" else text


def load(section: AccountSection) -> str:
    """Sentence on the load: arrival rates of all requests before and after."""
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
