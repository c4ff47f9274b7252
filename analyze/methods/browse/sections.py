"""Display of the sections of a browsed period: response times and their ranges, typical requests, load over
time, call sites and hosts, C²."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import Any, Final

from markupsafe import Markup

from analyze.report import blocks as b
from analyze.report import measures, wording
from analyze.report.drawing.charts import c2_curves
from analyze.report.drawing.train_schedule import schedule_blocks
from analyze.report.drawing.wide_charts import (
    Series,
    Stretched,
    draw_by_time,
    draw_density,
    draw_lanes,
    steps_path,
)
from analyze.report.page import template
from analyze.report.section_view import SectionView
from schemas.report.browse import (
    BinnedSite,
    BrowsePlacesSection,
    BrowseRangesSection,
    BrowseSchedulesSection,
    BrowseTimelineSection,
    BrowseVarianceSection,
    EntryTimeline,
    ErrorRow,
    HostRow,
    KindInRange,
    ResponseRange,
    SiteInRange,
    SiteRow,
    TimelineStrip,
    TypicalRequest,
)
from schemas.report.columns import columns_of

SHOWN: Final = 15
"""Number of rows that are shown before the reader unfolds a table."""
PRINTED: Final = 6
"""Maximum number of rows, and of typical requests, on a terminal."""
ALPHA: Final = 0.01

_PAGE: Final = "analyze.methods.browse.page"
_STYLE: Final = resources.files(_PAGE).joinpath("browse.css").read_text(encoding="utf-8")
_SCRIPT: Final = resources.files(_PAGE).joinpath("chooser.js").read_text(encoding="utf-8")
_STRIP: Final = {
    "usual": "A usual stretch",
    "busiest": "The most requests at work",
    "longest-gap": "Around the longest time without any",
}
_LIFT: Final = "How many times as frequent it is here as elsewhere"
_RULE: Final = {
    "isj": "improved Sheather–Jones",
    "silverman": "rule of thumb",
    "resolution": "the step of the recorded times",
}


def ranges_blocks(section: BrowseRangesSection) -> b.Blocks:
    """Display of the section as blocks: density, content of each mode and of the slow end, and tables for any
    range that the user chooses."""
    if not sum(section.n):
        return (b.Part("Response times", (b.Text("No request."),), anchor="times"),)
    note = density_sentence(section) if section.curves else ""
    return (b.Part("Response times", tuple(_ranges(section)), note=note, anchor="times"),)


def _ranges(s: BrowseRangesSection) -> Iterator[b.Block]:
    kinds = ("after",) if len(s.curves) == 1 else ("before", "after")
    if len(s.curves) > 1:
        legend = [
            (b.Styled("", "swatch", kind), f"{c.sample}, {wording.count(c.requests)} ")
            for kind, c in zip(kinds, s.curves, strict=False)
        ]
        yield b.Only("page", (b.Text(legend, "dim"),))
    drawn = draw_density(
        f"Response times of {sum(s.n)} requests",
        (s.edges_us[0], s.edges_us[-1]),
        [(kind, curve.points) for kind, curve in zip(kinds, s.curves, strict=False)],
        s.ranges,
    )
    yield b.Drawing(Markup('<div class="density-of">{}</div>').format(drawn))
    if s.curves:
        yield b.Details("How the curve was estimated", (b.Text(bandwidth_sentence(s)),))
    yield b.Drawing(_chooser(s))
    for number, one in enumerate(s.ranges, 1):
        title = (f"{range_name(number, one)} ", b.dim(f"({span(one, s)})"))
        yield b.Part(
            title, tuple(_range(number, one, s)), range_sentence(one), f"range{number}", open=number == 1
        )
        yield b.Only("terminal", tuple(_most(one, s)))
    if len(s.roots) > 1:
        roots = b.Grid("Root types", _ALL_KINDS, s.roots, s.roots_total, anchor="all-roots")
        yield b.Details(f"All root types ({wording.count(s.roots_total)})", (roots,))
    categories = b.Grid(
        "Categories", _ALL_CATEGORIES, s.categories, s.categories_total, anchor="all-categories"
    )
    yield b.Details(
        f"All categories by number of requests ({wording.count(s.categories_total)})", (categories,)
    )
    sites = b.Grid("Call sites of ranges", _ALL_SITES, s.sites, s.sites_total, anchor="all-sites")
    yield b.Details(f"Call sites listed in ranges ({wording.count(s.sites_total)})", (sites,))


def _chooser(s: BrowseRangesSection) -> Markup:
    """Markup of the form in which the user chooses a range; filled by the page's script."""
    presets = [(range_name(number, one), one.first, one.past) for number, one in enumerate(s.ranges, 1)]
    tables = [("categories", "Categories"), ("sites", "Call sites")]
    if len(s.roots) > 1:
        tables.insert(0, ("roots", "Root types"))
    made = template(_PAGE, "chooser.html.jinja").render(bins=len(s.n), presets=presets, tables=tables)
    return Markup(made)


def _range(number: int, one: ResponseRange, s: BrowseRangesSection) -> Iterator[b.Block]:
    if one.where:
        yield b.Only("page", (b.Text(("As a filter: ", b.code(one.where)), "dim"),))
    for kind, label, rows, of in (
        ("roots", "Root type", one.roots, s.roots),
        ("categories", "Category", one.categories, s.categories),
    ):
        if kind == "categories" or len(of) > 1:
            columns = _kind_columns(label, of)
            yield b.Grid(
                f"{label} of range {number}", columns, rows, printed=0, anchor=f"range{number}-{kind}"
            )
    if one.sites:
        label = f"Call sites of range {number}"
        yield b.Grid(label, _site_columns(s.sites), one.sites, printed=0, anchor=f"range{number}-sites")
        if one.mean_out_us is not None:
            whole = wording.change(one.mean_us - one.mean_out_us)
            text = f"Over all call sites the differences add up to {whole}, that of the mean."
            yield b.Only("page", (b.Text(text, "dim"),))


def _most(one: ResponseRange, s: BrowseRangesSection) -> Iterator[b.Block]:
    """Lines on the most frequent root type or category in a range, and on the call site with the largest
    difference."""
    if one.roots and len(s.roots) > 1:
        row, name = one.roots[0], s.roots[one.roots[0].place].root
    else:
        row = one.categories[0]
        category = s.categories[row.place]
        name = f"{category.root}, path {wording.short(category.category)}"
    yield b.Text(f"   most are {name}: {wording.percent(row.share_in)}, {how_often(row.lift)}", "dim")
    if one.sites and one.mean_out_us is not None:
        site = one.sites[0]
        moved = wording.change(site.mean_in_us - site.mean_out_us)
        yield b.Text(f"   {s.sites[site.place].label}: {moved} a request against the others", "dim")


def _category(kind: Any) -> b.Words:
    root = b.dim(f" {wording.clip(kind.root, 80)}")
    return (b.code(wording.short(kind.category), kind.canonical), root)


def _site(row: BinnedSite | SiteRow) -> b.Words:
    return b.call_site(row.label, row.caller)


_KIND_NUMBERS: Final = (
    b.Column("requests", "requests", "count"),
    b.Column("mean_us", "mean", "us"),
    b.Column("c2", "C²", "c2"),
)
_ALL_KINDS: Final = (
    b.Column("", "Root type", "text", lambda row: b.strong(wording.clip(row.root, 100))),
    *_KIND_NUMBERS,
)
_ALL_CATEGORIES: Final = (b.Column("", "Category", "text", _category), *_KIND_NUMBERS)
_ALL_SITES: Final = (
    b.Column("", "Call site", "text", _site),
    b.Column("requests", "requests that wait", "count"),
    b.Column("c2", "C²", "c2"),
)


def _kind_columns(label: str, kinds: Sequence[Any]) -> tuple[b.Column, ...]:
    def name(row: KindInRange) -> b.Words:
        kind = kinds[row.place]
        return _category(kind) if hasattr(kind, "category") else b.strong(wording.clip(kind.root, 100))

    return (
        b.Column("", label, "text", name),
        b.Column("n", "requests here", "count"),
        b.Column("share_in", "share here", "share", far=1),
        b.Column("share_out", "elsewhere", "share", far=1),
        b.Column("", "lift", "figure", lambda row: lift(row.lift), about=_LIFT),
        b.Column("failed", "failed here", "share", far=1),
        b.Column("", "mean", "us", lambda row: kinds[row.place].mean_us),
        b.Column("", "C²", "c2", lambda row: kinds[row.place].c2, far=1),
    )


def _site_columns(sites: Sequence[BinnedSite]) -> tuple[b.Column, ...]:
    def difference(row: SiteInRange) -> b.Words:
        return b.strong(wording.change(row.mean_in_us - row.mean_out_us))

    return (
        b.Column("", "Call site", "text", lambda row: _site(sites[row.place])),
        b.Column("mean_in_us", "a request here", "us"),
        b.Column("mean_out_us", "elsewhere", "us", far=1),
        b.Column("", "difference", "figure", difference),
        b.Column("share_in", "wait for it here", "share", far=1),
        b.Column("share_out", "elsewhere", "share", far=1),
        b.Column("", "lift", "figure", lambda row: lift(row.lift), far=1, about=_LIFT),
        b.Column("failed", "failed here", "share", far=1),
        b.Column("", "C²", "c2", lambda row: sites[row.place].c2, far=1),
    )


def schedules_blocks(section: BrowseSchedulesSection) -> b.Blocks:
    """Display of the section as blocks: typical requests as train schedules, by component; on a terminal
    their ids."""
    note = "the one nearest to the medians of its category, and the mean of all"
    cards = tuple(_typical(one, place == 0) for place, one in enumerate(section.requests))
    printed = [_waits(one) for one in section.requests[:PRINTED]]
    return (
        b.Only(
            "page", (b.Part("Typical requests", cards or (b.Text("None."),), note=note, anchor="typical"),)
        ),
        b.Only(
            "terminal", (b.Part("Typical requests", (b.Items(printed),), note="flowdiff flow ID draws one"),)
        ),
    )


def _waits(one: TypicalRequest) -> b.Words:
    lanes = sorted(one.medoid.lanes, key=lambda lane: -lane.waited_us)[:3]
    waits = ", ".join(f"{lane.component} {wording.duration(lane.waited_us)}" for lane in lanes)
    request = f"{wording.clip(one.medoid.request_id or '', 40)}  {one.root}: {typical_sentence(one)}"
    return (request, b.dim(f"; this one {wording.duration(one.medoid.response_us)}: {waits}"))


def _typical(one: TypicalRequest, is_open: bool) -> b.Part:
    root, response = wording.clip(one.root, 60), wording.duration(one.medoid.response_us)
    request = ("Request ", b.request_link(one.medoid.request_id or ""), f", {response}")
    mean = f"The mean of {wording.counted(one.requests, 'request')}, {wording.duration(one.mean.response_us)}"
    return b.Part(
        (f"{wording.clip(one.root, 90)}, path ", b.code(wording.short(one.category))),
        (
            b.Text(request),
            *schedule_blocks(one.medoid, f"A typical request of {root}, {response}"),
            b.Details(mean, schedule_blocks(one.mean, f"The mean of the requests of {root}")),
        ),
        note=typical_sentence(one),
        open=is_open,
    )


def timeline_blocks(section: BrowseTimelineSection) -> b.Blocks:
    """Display of the section as blocks: curves of each entry component over time, and strips of requests."""
    blocks: list[b.Block] = []
    if section.sampled:
        text = "Requests were sampled: gaps and requests at work are of those that were kept."
        blocks.append(b.Text(text, "dim"))
    for place, entry in enumerate(section.entries):
        inside: list[b.Block] = [b.Text(text)] if (text := before_sentence(entry)) else []
        inside += [b.Drawing(drawn) for drawn in _series(entry)]
        inside += [
            b.Drawing(draw_lanes(strip_sentence(strip), strip), strip_sentence(strip))
            for strip in entry.strips
        ]
        if entry.strips:
            text = (
                "Each box is a request from its start to its response; the height is how many are at work. "
                "Where there is none, the service had nothing to do."
            )
            inside.append(b.Only("page", (b.Text(text, "dim"),)))
        name = f"At {wording.clip(entry.component, 80)}"
        inside.append(b.Details("Gaps between requests", (b.Text(gaps_sentence(entry)),)))
        blocks.append(b.Part(name, inside, note=entry_sentence(entry), open=place == 0))
    if len(section.entries) < section.entries_total:
        shown = f"{len(section.entries)} of {wording.count(section.entries_total)} components"
        blocks.append(b.Text(f"{shown} at which requests come in; --set entries=… shows more.", "dim"))
    return (b.Part("By time", blocks or (b.Text("No request."),), anchor="bytime"),)


def _series(entry: EntryTimeline) -> list[Markup]:
    ends = entry.edges_ns[0], entry.edges_ns[-1]
    seconds = [
        (past - first) / 1e9 for first, past in zip(entry.edges_ns[:-1], entry.edges_ns[1:], strict=True)
    ]

    def watched(values: list[float]) -> list[float | None]:
        return [value if seen else None for value, seen in zip(values, entry.watched, strict=True)]

    rates = [n / length for n, length in zip(entry.arrivals, seconds, strict=True)]
    failed = [n / length for n, length in zip(entry.failed, seconds, strict=True)]
    arrivals: list[Series] = [("area", watched(rates))]
    if any(failed):
        arrivals.append(("bad", watched(failed)))
    at_work: list[Series] = [
        ("faint", watched([float(n) for n in entry.max_in_flight])),
        ("area", watched(list(entry.mean_in_flight))),
    ]
    gaps = [us for us in entry.longest_gap_us if us]
    idle: list[Series] = [("area", watched(list(entry.longest_gap_us)))]
    longest = wording.duration(max((us for us in entry.p99_us if us is not None), default=0.0))
    times: list[Series] = [("faint", entry.p99_us), ("area", entry.median_us)]
    charts = (
        ("Arrivals a second", f"most {wording.significant(max(rates))}", arrivals),
        ("At work: most, and on average", f"most {max(entry.max_in_flight)}", at_work),
        (
            "Longest time without any at work",
            f"longest {wording.duration(max(gaps))}" if gaps else "none",
            idle,
        ),
        ("Response time: 99th percentile, and median", f"longest {longest}", times),
    )
    return [draw_by_time(title, most, series, ends, axis=series is times) for title, most, series in charts]


def places_blocks(section: BrowsePlacesSection) -> b.Blocks:
    """Display of the section as blocks: call sites, hosts, errors."""
    return (b.Part("Where", tuple(_places(section)), anchor="where"),)


SITES: Final = (b.Column("", "Call site", "text", _site), *columns_of(SiteRow))
HOSTS: Final = (
    *columns_of(HostRow),
    b.Column("", "components", "text", lambda row: wording.clip(", ".join(row.components), 120), far=2),
)
ERRORS: Final = (
    b.Column("", "Class", "text", lambda row: b.strong(wording.clip(row.error, 60))),
    *columns_of(ErrorRow),
    b.Column("", "hosts", "text", lambda row: wording.clip(", ".join(row.hosts), 80), far=3),
    b.Column("", "by time", "bar", lambda row: _spark(row), far=2),
)


def _places(s: BrowsePlacesSection) -> Iterator[b.Block]:
    title = "Call sites, by the time that requests wait for them"
    sites = b.Grid(title, SITES, s.sites, s.sites_total, "browse_sites", SHOWN, PRINTED, anchor="sites")
    yield b.Part(title, (sites,))
    if s.hosts:
        hosts = b.Grid("Hosts", HOSTS, s.hosts, s.hosts_total, "browse_hosts", printed=PRINTED)
        none = (
            f"{wording.percent(s.no_host)} of the time is on hosts that are not known."
            if s.no_host > 0
            else ""
        )
        yield b.Part("Hosts", (hosts, *((b.Text(none, "dim"),) if none else ())))
    if s.errors:
        errors = b.Grid(
            "Errors", ERRORS, s.errors, s.errors_total, "browse_errors", printed=PRINTED, anchor="errors"
        )
        failures = f"something fails in {wording.percent(s.failed_inside)} of the requests"
        yield b.Part("Errors", (errors,), note=failures)
    else:
        yield b.Part("Errors", (b.Text("Nothing failed."),))


def _spark(row: ErrorRow) -> b.Drawing:
    """Sparkline of a row's failures over time."""
    drawing = Stretched(18, "spark", "by time")
    highest = max(row.by_time, default=0) or 1
    drawing.path("bad", steps_path([n / highest for n in row.by_time], len(row.by_time), 17, 16))
    return b.Drawing(drawing.svg())


_ROOT_VARIANCE: Final = (
    b.Column("root", "Root type", "name"),
    b.Column("requests", "requests", "count"),
    b.Column("categories", "categories", "count"),
    b.Column("below_one", "C² below 1", "share"),
    b.Column("largest", "largest", "c2"),
)


def curves_blocks(section: BrowseVarianceSection) -> b.Blocks:
    """Display of the section as blocks: curves of C²."""
    named = len(section.curves) > 1
    described = [
        b.Text(f"{curve.sample.capitalize()}: " * named + measures.c2_sentence(curve))
        for curve in section.curves
    ]
    roots = b.Grid("C² by root type", _ROOT_VARIANCE, section.roots, section.roots_total)
    more = (b.Details(f"By root type ({wording.count(section.roots_total)})", (roots,)),)
    drawn = c2_curves([curve.points for curve in section.curves])
    other = b.Only("page", (b.Text(("What makes times vary: ", b.code("flowdiff variance"), "."), "dim"),))
    blocks = (*described, *drawn, *(more if len(section.roots) > 1 else ()), other)
    return (b.Part("How even the paths are", blocks, anchor="c2"),)


def lift(value: float | None) -> str:
    """Text of a lift (ratio of frequencies): `×4.2`; `only here` for None, i.e. never elsewhere."""
    return "only here" if value is None else wording.factor(value)


def how_often(value: float | None) -> str:
    """Text of a lift for a sentence: `0.9 × as often as elsewhere`; `only here` for None, i.e. never
    elsewhere."""
    return "only here" if value is None else f"{wording.rough(value, 2)} × as often as elsewhere"


def span(one: ResponseRange, section: BrowseRangesSection) -> str:
    """Text of a range's bounds: `1.2 ms to 4 ms`, `from 4 ms`, `all`."""
    low, high = wording.duration(one.low_us), wording.duration(one.high_us)
    starts, ends = one.first == 0, one.past == len(section.n)
    if starts and ends:
        return "all"
    if starts:
        return f"below {high}"
    return f"from {low}" if ends else f"{low} to {high}"


def range_name(number: int, one: ResponseRange) -> str:
    """Name of a range: `Mode 2, around 3.4 ms`, or `Slowest`."""
    if one.peak_us is None:
        return "Slowest"
    return f"Mode {number}, around {wording.duration(one.peak_us)}"


def range_sentence(one: ResponseRange) -> str:
    """Sentence on a range: `45 % of the requests (9 510), 3.1 ms on average; 0.4 % failed (elsewhere 0.1
    %)`."""
    failed = ""
    if one.failed > 0 or one.failed_out:
        elsewhere = "" if one.failed_out is None else f" (elsewhere {wording.percent(one.failed_out)})"
        failed = f"; {wording.percent(one.failed)} failed{elsewhere}"
    return (
        f"{wording.percent(one.share)} of the requests ({wording.count(one.n)}), "
        f"{wording.duration(one.mean_us)} on average{failed}"
    )


def density_sentence(section: BrowseRangesSection) -> str:
    """Caption of the density curves: number of response times of the last sample."""
    return f"{wording.counted(section.curves[-1].requests, 'response time')} on a log scale"


def bandwidth_sentence(section: BrowseRangesSection) -> str:
    """Sentence on the kernel and the bandwidth of the density estimate."""
    shown = section.curves[-1]
    return (
        f"Gaussian kernel, bandwidth {wording.significant(shown.bandwidth, 2)} octaves ({_RULE[shown.rule]})."
    )


def entry_sentence(entry: EntryTimeline) -> str:
    """Sentence on the traffic of an entry component: `8,000 requests, 12.3 a second; at most 14 at once.`"""
    return (
        f"{wording.counted(entry.requests, 'request')}, {wording.significant(entry.rate_per_s)} a second; "
        f"at most {wording.count(entry.most_in_flight)} at once."
    )


def gaps_sentence(entry: EntryTimeline) -> str:
    """Sentence on concurrency and gaps of an entry component: `0.8 at work on average, none in 43 % of the
    time …`."""
    text = (
        f"{wording.significant(entry.in_flight)} at work on average, none in "
        f"{wording.percent(1 - entry.busy)} of the time"
    )
    if entry.gap_us is None:
        return f"{text}."
    median, p99, longest = (wording.duration(us) for us in entry.gap_us)
    return (
        f"{text}: {wording.counted(entry.gaps, 'gap')} of {median} in the median, {p99} at the 99th "
        f"percentile, {longest} at most."
    )


def before_sentence(entry: EntryTimeline) -> str:
    """Sentence on an entry component in the first sample: `Reference: 4.1 a second, …; gaps differ (p =
    0.001), response times do not (p = 0.4).` Empty without a first sample."""
    before = entry.before
    if before is None:
        return ""
    gaps = "" if before.gap_us is None else f", gaps of {wording.duration(before.gap_us[0])} in the median"
    text = (
        f"{before.sample.capitalize()}: {wording.significant(before.rate_per_s)} a second, "
        f"{wording.significant(before.in_flight)} at work on average, "
        f"none in {wording.percent(1 - before.busy)} of the time{gaps}"
    )
    tested = [
        f"{name} {'differ' if p < ALPHA else 'do not differ'} significantly (p = {wording.p_value(p)})"
        for name, p in (("times between requests", before.gaps_p), ("response times", before.times_p))
        if p is not None
    ]
    return f"{text}; {', '.join(tested)}." if tested else f"{text}."


def strip_sentence(strip: TimelineStrip) -> str:
    """Caption of a strip: its kind, length, begin and number of requests."""
    left = "" if not strip.left_out else f", {wording.count(strip.left_out)} more not drawn"
    return (
        f"{_STRIP[strip.kind]}: {wording.duration(strip.length_us)} from {clock(strip.start_ns)}, "
        f"{wording.counted(len(strip.requests), 'request')}{left}"
    )


def typical_sentence(one: TypicalRequest) -> str:
    """Sentence on a typical request: `31 % of the time, 4 120 requests, 12 ms on average`."""
    leads = f"; stands for {', '.join(one.leads)}" if one.leads else ""
    return (
        f"{wording.percent(one.share_of_time)} of all time, {wording.counted(one.requests, 'request')}, "
        f"{wording.duration(one.mean_us)} on average{leads}"
    )


def clock(ns: int) -> str:
    """Text of an instant, ns since the epoch: `2026-11-19 09:05:12.345Z`."""
    when = datetime.fromtimestamp(ns // 10**9, UTC)
    return f"{when:%Y-%m-%d %H:%M:%S}.{ns % 10**9 // 10**6:03d}Z"


RANGES: Final = SectionView(BrowseRangesSection, ranges_blocks, style=_STYLE, script=_SCRIPT)
SCHEDULES: Final = SectionView(BrowseSchedulesSection, schedules_blocks, style=_STYLE)
TIMELINE: Final = SectionView(BrowseTimelineSection, timeline_blocks, style=_STYLE)
PLACES: Final = SectionView(BrowsePlacesSection, places_blocks, style=_STYLE)
VARIANCE_CURVES: Final = SectionView(BrowseVarianceSection, curves_blocks, style=_STYLE)
