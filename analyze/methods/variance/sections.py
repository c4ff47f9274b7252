"""Display of the sections of variance: exact decomposition, parts of some categories, and changes between two
samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from analyze.report import blocks as b
from analyze.report import measures, wording
from analyze.report.bars import Axis
from analyze.report.drawing.charts import c2_curves, histogram
from analyze.report.section_view import SectionView
from schemas.report.columns import columns_of
from schemas.report.variance import (
    EdgeAdvice,
    MarkerSuggestion,
    VariableCategory,
    VariableEdge,
    VariableSite,
    VarianceChangeSection,
    VarianceDetail,
    VarianceDetailsSection,
    VarianceSection,
    WatchedSource,
)

ROOTS: Final = 8
"""Maximum number of root types whose parts are drawn."""
SHOWN: Final = 15
"""Number of rows that are shown before the reader unfolds a table."""
LEAST_SITES: Final = 5
MATERIAL: Final = 1e-3
"""Minimum share of the variance, in [0, 1], for a call site to be shown before the table is unfolded; the
first few are always shown."""
PRINTED: Final = 8
"""Maximum number of rows on a terminal."""
TAIL_KEPT: Final = 0.5
"""Share of the variance, left after the longest 0.5 % of the times are clipped, below which a tail counts as
heavy."""
MOSTLY_BETWEEN: Final = 0.5
"""Minimum share of a change that lies between paths for the report to mention it."""
MEANING: Final = {
    "roots": "between root types: different work",
    "paths": "between paths of a root type: different work for the same request",
    "within": "within paths: same path, different times",
}
STYLE: Final = "\n".join(
    f".bar .{part}, .swatch.{part} "
    f"{{ fill: var({colour}); background: var({colour}); border-color: var({colour}); }}"
    for part, colour in (("roots", "--quiet"), ("paths", "--before-bar"), ("within", "--after"))
)

_MARKERS: Final = (
    b.Column("label", "Label", "name"),
    b.Column("kind", "Kind"),
    b.Column("owner", "Owner"),
    b.Column("reason", "Reason"),
    b.Column("expires", "Expires"),
    b.Column("state", "State"),
)
_PAIRS: Final = (
    b.Column("one", "No.", "count"),
    b.Column("other", "No.", "count"),
    b.Column("rho", "Spearman's ρ", "figure", lambda pair: f"{pair.rho:.2f}"),
    b.Column("q", "q", "p"),
    b.Column("", "Covariance, ms²", "number", lambda pair: pair.covariance_us2 / 1e6),
)
_CHANGED: Final = (
    b.Column("root", "Root type", "name"),
    b.Column("category", "Category", "key"),
    b.Column("c2{}", "C²", "c2"),
    b.Column("ratio", "Factor", "ratio", interval="interval"),
    b.Column("q", "q", "p", far=1),
    b.Column("requests{}", "Requests", "count", far=2),
)


def variance_blocks(section: VarianceSection) -> b.Blocks:
    """Display of the section as blocks: decomposition, watched sources, call sites, categories, markers."""
    s = section
    title = f"standard deviation {wording.duration(s.sd_us)}, C² {wording.c2(s.c2)}; the parts add up exactly"
    return (b.Part("Where response times vary", tuple(_variance(s)), note=title, anchor="variance"),)


def _variance(s: VarianceSection) -> Iterator[b.Block]:
    whole: dict[str, float] = {part.kind: part.share for part in s.parts if part.root is None}
    yield b.Only("page", (b.Text(_parts(whole, "The variance of all response times")),))
    yield b.Items(
        [(b.Styled("", "swatch", k), b.strong(wording.part(v)), f" {MEANING[k]}") for k, v in whole.items()]
    )
    roots = _root_parts(s)
    if len(roots) > 1:
        columns = (
            b.Column("", "Root type", "name", lambda row: row[0]),
            b.Column("", "", "bar", _root_bar),
            b.Column("", "Of the variance", "share", lambda row: row[1] + row[2]),
        )
        yield b.Grid("By root type", columns, roots, printed=0)
    if text := residual(s):
        yield b.Text(text)
    if s.watched:
        yield b.Part("To be reduced", (b.Items([_watched(source) for source in s.watched]),))
    worth = sum(abs(site.within) >= MATERIAL for site in s.sites[:SHOWN])
    sites = b.Grid(
        "Call sites, by what they add within paths",
        _sites(s),
        s.sites,
        s.sites_total,
        "variance_sites",
        first=max(LEAST_SITES, worth),
        printed=PRINTED,
    )
    yield b.Part("Call sites, by what they add within paths", (sites,), anchor="places")
    named = len(s.curves) > 1
    curves = [
        b.Text(f"{curve.sample.capitalize()}: " * named + measures.c2_sentence(curve)) for curve in s.curves
    ]
    drawn = c2_curves([curve.points for curve in s.curves])
    stored = "variance_categories"
    table = b.Grid("Categories", _categories(s), s.categories, s.categories_total, stored, SHOWN)
    yield b.Part("Categories", (*curves, *drawn, table), anchor="categories")
    if s.markers:
        yield b.Details(f"Markers ({len(s.markers)})", (b.Grid("Markers", _MARKERS, s.markers),))


def _parts(found: dict[str, float], title: str) -> b.Bar:
    """Bar of consecutive shares of a whole. found: CSS class -> share."""
    stretches, at = [], 0.0
    for kind, part in found.items():
        stretches.append(b.Stretch(kind, 100 * at, 100 * part))
        at += part
    return b.Bar(tuple(stretches), title)


_RootParts = tuple[str, float, float]
"""Root type with its parts of the variance: (root type, between paths, within paths)."""


def _root_parts(section: VarianceSection) -> list[_RootParts]:
    """Parts of the variance by root type, for the at most ROOTS root types with the largest parts."""
    found: dict[str, dict[str, float]] = {}
    for part in section.parts:
        if part.root is not None:
            found.setdefault(part.root, {})[part.kind] = part.share
    rows = [(root, parts["paths"], parts["within"]) for root, parts in found.items()]
    return sorted(rows, key=lambda row: (-row[1] - row[2], row[0]))[:ROOTS]


def _root_bar(row: _RootParts) -> b.Bar:
    root, paths, within = row
    title = f"{root}: between its paths {wording.part(paths)}, within them {wording.part(within)}"
    return _parts({"paths": paths, "within": within}, title)


def _sites(s: VarianceSection) -> tuple[b.Column, ...]:
    axis = Axis.over(site.within for site in s.sites)
    left = () if s.residual_sd_us is None else ("residual",)

    def bar(row: VariableSite) -> b.Bar:
        return axis.share(row.within, f"within paths {wording.part(row.within)}", row.within_interval)

    return (
        b.Column("", "Call site", "text", _place),
        b.Column("", "", "bar", bar),
        *columns_of(VariableSite, "within", *left, "paths", "roots", "c2"),
        b.Column("", "Time", "figure", _time, far=1),
        *columns_of(VariableSite, "requests"),
    )


def _categories(s: VarianceSection) -> tuple[b.Column, ...]:
    left = () if s.residual_sd_us is None else ("c2_residual",)
    return (
        *columns_of(VariableCategory, "root"),
        b.Column("", "Category", "text", _category),
        *columns_of(VariableCategory, "c2", *left, "impact", "mean_us", "sd_us", "requests"),
    )


def _place(row: Any) -> b.Words:
    marked: b.Words = (" ", b.tag(row.marker)) if getattr(row, "marker", None) else ""
    return (b.call_site(row.label, row.caller), marked)


def _time(row: VariableSite | VariableEdge) -> b.Words:
    return (b.strong(wording.duration(row.mean_us)), b.Styled(f"± {wording.duration(row.sd_us)}", "span"))


def _category(row: VariableCategory) -> b.Words:
    if row.category:
        return b.code(wording.short(row.category), wording.clip(row.canonical, 600))
    return wording.counted(row.members, "rare path")


def details_blocks(section: VarianceDetailsSection) -> b.Blocks:
    """Display of the section as blocks: parts of some categories, advice, suggestions."""
    return (
        b.Part(
            "Inside the categories",
            tuple(_details(section)),
            note="parts of each add up to 100 %; those below 0 compensate",
            anchor="details",
        ),
    )


def _details(s: VarianceDetailsSection) -> Iterator[b.Block]:
    if not s.details:
        yield b.Text("No category varies.")
    for place, detail in enumerate(s.details):
        key = f", path {wording.short(detail.category)}" if detail.category else ", rare paths"
        yield b.Part(f"{detail.root}{key}", tuple(_detail(detail)), note=_note(detail), open=place == 0)
    if s.advice:
        items = [(advice(a), b.dim(f" Worth {wording.part(a.worth)} of the variance.")) for a in s.advice]
        yield b.Part("Where instrumentation would help", (b.Items(items),))
    if s.suggestions:
        rows = [f"{row.label}: {row.kind}? {row.why}, {wording.part(row.within)}" for row in s.suggestions]
        file = "Copy them into a file, fill in owner and reason, and give it as --markers FILE."
        toml = b.Details("As a file", (b.Text(suggestion_toml(s.suggestions), "pre"),))
        note = "by name only, not applied"
        yield b.Part("Suggested markers", (b.Items(rows), b.Text(file, "dim"), toml), note=note)


def _detail(detail: VarianceDetail) -> Iterator[b.Block]:
    axis = Axis.over(edge.share for edge in detail.edges)
    columns = (
        b.Column("", "Edge" if detail.by == "edges" else "Call site", "text", _edge),
        b.Column("", "", "bar", lambda e: axis.share(e.share, wording.part(e.share))),
        *columns_of(VariableEdge, "share", "share_winsorised"),
        b.Column("", "Time", "figure", _time, far=1),
        *columns_of(VariableEdge, "critical"),
    )
    yield b.Grid(f"Parts of {detail.root}", columns, detail.edges, detail.edges_total)
    of = (
        ""
        if len(detail.edges) >= detail.edges_total
        else f" Shown: {wording.part(detail.edges_share)} of the variance."
    )
    yield b.Only("page", (b.Text(f"Bold: the highest variances.{of}", "dim"),))
    if detail.pairs:
        pairs = b.Grid("Pairs that vary together", _PAIRS, detail.pairs, detail.pairs_total)
        yield b.Details(f"{wording.counted(detail.pairs_total, 'pair')} vary together", (pairs,))
    if detail.histogram is not None:
        caption = f"Times of no. 1, {wording.clip(detail.edges[0].label, 100)}, where it is critical"
        yield histogram(detail.histogram, caption)


def _edge(edge: VariableEdge) -> b.Words:
    name = wording.clip(f"{edge.number}. {edge.label}", 124)
    marked: b.Words = (" ", b.tag(edge.marker)) if edge.marker else ""
    waits = "" if edge.inherits is None else f" waits for {edge.inherits}"
    return (b.strong(name) if edge.highest else name, marked, b.dim(waits))


def _note(found: VarianceDetail) -> str:
    """Sentence on a category shown in detail: requests, C², deviation, share of the variance, heavy tail."""
    tail = ""
    if found.kept < TAIL_KEPT:
        left = wording.percent(found.kept)
        tail = f" Heavy tail: without the longest 0.5 % of each part, {left} of it is left."
    return (
        f"{wording.counted(found.requests, 'request')}, C² {wording.c2(found.c2)}, standard deviation "
        f"{wording.duration(found.sd_us)}; {wording.percent(found.impact)} of the variance of all.{tail}"
    )


def change_blocks(section: VarianceChangeSection) -> b.Blocks:
    """Display of the section on changes between two samples as blocks."""
    note = f"shares are of the variance of the {section.before}"
    return (b.Part("What became more variable", tuple(_change(section)), note=note, anchor="variable"),)


def _change(s: VarianceChangeSection) -> Iterator[b.Block]:
    yield b.Text(change(s))
    axis = Axis.over(row.change for row in s.sites)
    columns = (
        b.Column("", "Call site", "text", _place),
        b.Column("", "", "bar", lambda r: axis.share(r.change, wording.part(r.change, sign=True))),
        b.Column("", "Change of its part", "figure", lambda r: wording.part(r.change, sign=True)),
        b.Column("ratio", "Its variance", "ratio", interval="interval"),
        b.Column("c2{}", "C²", "c2", far=1),
        b.Column("sd{}_us", "Deviation", "us", far=2),
        b.Column("q", "q", "p", far=2),
    )
    if s.sites:
        yield b.Grid("Changed call sites", columns, s.sites, s.sites_total, "variance_sites", printed=PRINTED)
    else:
        yield b.Text(f"None of {wording.counted(s.sites_tested, 'call site')} changed significantly.")
    if s.categories:
        of = f"{wording.count(s.categories_total)} of {wording.count(s.categories_tested)}"
        table = b.Grid("Categories whose C² changed", _CHANGED, s.categories, s.categories_total)
        yield b.Part("Categories whose C² changed", (table,), note=of)
    if check := change_check(s):
        yield b.Details("The papers' check of large categories", (b.Text(check),))


def residual(section: VarianceSection) -> str:
    """Sentence on the variance that markers remove; empty if no marker matches."""
    if section.marked_share is None or section.residual_sd_us is None:
        return ""
    return (
        f"Marked sources carry {wording.percent(section.marked_share)} of the variance. Without them "
        f"response times vary by {wording.duration(section.residual_sd_us)}; the order is of what is left."
    )


def advice(found: EdgeAdvice) -> str:
    """Sentence on the two modes that an edge mixes, and on the remedy."""
    where = f" in {wording.counted(found.categories, 'category', 'categories')}"
    merged = (
        f"{found.label}{where} merges two behaviours: about {wording.duration(found.low_us)} and, in "
        f"{wording.percent(found.high_share)} of the requests, about {wording.duration(found.high_us)}. "
    )
    known = found.explanation
    if known is not None and known.reliable:
        return merged + f"A parameter tells them apart: {known.sentence}"
    if known is not None:
        return merged + "No recorded parameter tells them apart: add a trace point or a label here."
    return merged + "Add a trace point or a label here, or make a parameter that tells them apart a label."


def expired(section: VarianceSection) -> tuple[str, ...]:
    """Warnings for the report, one per expired marker."""
    return tuple(
        f"The marker '{row.label}' ({row.kind}, {row.owner}) expired on {row.expires} and has no effect: "
        "renew it or remove it."
        for row in section.markers
        if row.state == "expired"
    )


def _watched(source: WatchedSource) -> b.Words:
    """Text of a source to be reduced: `a -> b: C² 3.4, 12 % of the variance. …`"""
    text = f"{source.site}: C² {wording.c2(source.c2)}, {wording.percent(source.within)} of the variance. "
    text += f"To be reduced ({source.marker.owner}: {source.marker.reason})."
    return b.dim(f"{text} C² is below 1: the marker may go.") if source.resolved else text


def suggestion_toml(rows: Sequence[MarkerSuggestion]) -> str:
    """Text of a TOML file with the suggested markers, to be copied by the user."""
    return "\n".join(
        f"[[marker]]  # {wording.percent(row.within)} of the variance: {row.why}\n"
        f'label = {_quoted(row.label)}\nkind = "{row.kind}"\nowner = ""\nreason = ""\n'
        for row in rows
    )


def _quoted(text: str) -> str:
    """Quote a text as a TOML string, whatever characters it contains."""
    plain = wording.visible(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


def change(section: VarianceChangeSection) -> str:
    """Sentence on the change of the standard deviation, and of the variance, of all response times."""
    moved = wording.moved_duration(section.sd0_us, section.sd1_us)
    text = f"Standard deviation of all response times: {moved}"
    if section.interval is not None and not math.isclose(section.ratio, 1.0):
        span = measures.ratio_span(section.interval)
        text += f"; variance {wording.factor(section.ratio)} ({span} with 95 % certainty)"
    text += "."
    if section.between is not None and section.between >= MOSTLY_BETWEEN:
        text += (
            f" {wording.percent(min(section.between, 1.0))} of the change lies between paths: what some "
            "requests do took longer or shorter alike, and no call site need vary more. The command compare "
            "tells where."
        )
    return text


def change_check(section: VarianceChangeSection) -> str:
    """Sentence on the papers' check of large categories (a KS test); empty if the check was not made."""
    if section.ks_p is None:
        return ""
    verb = "differ" if section.ks_p < 0.05 else "do not differ"
    return (
        f"The variances of large categories as a whole {verb} before and after "
        f"(p {wording.p_value(section.ks_p)})."
    )


VARIANCE: Final = SectionView(VarianceSection, variance_blocks, warnings=expired, style=STYLE)
VARIANCE_DETAILS: Final = SectionView(VarianceDetailsSection, details_blocks, style=STYLE)
VARIANCE_CHANGE: Final = SectionView(VarianceChangeSection, change_blocks, style=STYLE)
