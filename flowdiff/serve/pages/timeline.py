"""Page *Timeline*: times, errors and load of a root, a call site, a host or a version, by window.

Numbers of a root are the rows used by *Now*; numbers of a call site are rows of the view `call_sites`, also
in memory; numbers of a host or a version are sums over spans, read on request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from analyze.report import wording
from analyze.report.blocks import Block, Column, Drawing, Grid, Items, Part, Styled, Text, Words, dim
from analyze.report.drawing.heat_strip import draw_marks
from analyze.report.drawing.wide_charts import Series, draw_by_time
from flowdiff.serve.answer import Answer, Asked, whole_number
from flowdiff.serve.event_marks import marks_of
from flowdiff.serve.pages.empty import empty
from flowdiff.serve.site import Site
from flowdiff.serve.spans_of_time import SPANS, default_span, shown_time, span_choice
from flowdiff.serve.statements import shown, statement
from flowdiff.serve.watched import incident_words
from schemas.arrays import F8
from schemas.errors import ConfigError, NotFoundError
from schemas.periods import format_instant

REFRESH_SECONDS: Final = 2
MOST_POINTS: Final = 1_000
"""Maximum number of points in a curve; with more windows, neighbouring ones are merged."""
MOST_SITES: Final = 200
"""Maximum number of call sites listed, largest share of response times first."""


def timeline(site: Site, asked: Asked) -> Answer:
    """Show the time course of a root type, call site, host or version, or a list to choose from."""
    known = site.known()
    if known.is_empty:
        return empty(site)
    usual = default_span(known)
    span = asked.chosen("span", (usual, *(name for name in SPANS if name != usual)))
    start_ns, end_ns = shown_time(known, span)
    named = {name: asked.one(name) for name in ("root", "site", "host", "component", "version", "by")}
    above = span_choice(
        site.shell, span, start_ns, end_ns, lambda name: site.links.to("timeline", **named, span=name)
    )
    period = f"{format_instant(start_ns)}/{format_instant(end_ns)}"
    if asked.is_foreign and (named["host"] or named["version"] or named["by"]):
        return _not_read(site.links.to("timeline", **named, span=span), above)
    if named["site"]:
        course = _of_site(site, named["site"], start_ns, end_ns)
    elif named["root"]:
        course = _of_root(site, named["root"], start_ns, end_ns)
    elif named["host"] or named["version"]:
        course = _of_instance(site, named["host"], named["component"], named["version"], period)
    elif by := asked.chosen("by", ("", "host", "version")):
        return _choose_instance(site, by, period, span, above)
    else:
        return _choose(site, start_ns, end_ns, span, above)
    blocks: list[Block] = []
    refresh = None
    if course.missing:
        note = f"{wording.counted(course.missing, 'window')} of this time are still being read."
        blocks.append(Text(note, "dim"))
        refresh = REFRESH_SECONDS
    if course.rows.num_rows:
        blocks += _drawn(site, course.rows, start_ns, end_ns)
    blocks.append(site.shell.same_in_sql(course.query, period))
    return Answer(
        wording.clip(course.title, 160),
        blocks,
        above=above,
        data={"title": course.title, "windows_not_read": course.missing, "windows": course.rows.to_pylist()},
        refresh_seconds=refresh,
    )


def _not_read(address: str, above: Markup) -> Answer:
    """Page for a link from another web site: spans are not read until the reader follows the link on this
    page to `address`."""
    words = ("This link came from another site. ", Styled("Read the spans of this time", href=address), ".")
    return Answer("Timeline", (Text(words),), above=above)


@dataclass(frozen=True, slots=True)
class _Course:
    """Time course of one root, call site, host or version: rows by window with start_ns, requests, mean_us,
    p95_us, failing."""

    title: str
    rows: pa.Table
    query: str
    """SQL query that gives the same numbers, for readers to copy."""
    missing: int = 0
    """Number of windows that are not read yet."""


def _of_site(site: Site, text: str, start_ns: int, end_ns: int) -> _Course:
    """Time course of a call site, from rows in memory. Raises ConfigError, NotFoundError."""
    key = whole_number(text, -(2**63), 2**63 - 1)
    if key is None:
        raise ConfigError("site is the key of a call site.")
    summed = site.sites.between(start_ns, end_ns, pc.field("site") == key)
    name = site.sites.names.get(key)
    if name is None and not summed.missing:
        raise NotFoundError(f"There is no call site {key} in this time.")
    title = f"Call site {key}" if name is None else f"{name.component}/{name.operation}"
    return _Course(title, summed.rows, shown("site_by_window", {"site": key}), summed.missing)


def _of_root(site: Site, root: str, start_ns: int, end_ns: int) -> _Course:
    """Time course of a root type, from the cached rows that *Now* uses, too. Raises NotFoundError."""
    summed = site.responses.between(start_ns, end_ns, pc.field("root") == root)
    if not summed.rows.num_rows and not summed.missing:
        raise NotFoundError(f"There is no root '{root}' in this time.", remedy="See Now for the roots.")
    return _Course(root, summed.rows, shown("root_by_window", {"root": root}), summed.missing)


def _of_instance(site: Site, host: str, component: str, version: str, period: str) -> _Course:
    """Time course of the spans of a host, or of a version of a component. Raises NotFoundError."""
    values: dict[str, str | int] = {
        "length": site.known().windows[-1].window.length_ns,
        "host": host,
        "component": component,
        "version": version,
    }
    with site.queries.borrowed(site.known().token, period) as session:
        rows = session.query(statement("instance_by_window"), values)
    title = f"Host {host}" if host else f"{component} {version}"
    if not rows.num_rows:
        raise NotFoundError(
            f"There is no span of '{title}' in this time.",
            remedy="Activity records have no timelines of hosts.",
        )
    return _Course(title, rows, shown("instance_by_window", values))


def _drawn(site: Site, rows: pa.Table, start_ns: int, end_ns: int) -> list[Block]:
    length_ns = site.known().windows[-1].window.length_ns
    count = int(min((end_ns - start_ns) // length_ns, MOST_POINTS))
    at = np.clip((rows["start_ns"].to_numpy() - start_ns) * count // (end_ns - start_ns), 0, count - 1)
    weight = rows["requests"].to_numpy().astype(np.float64)

    def curve(name: str) -> Series:
        return (
            "area" if name != "p95_us" else "faint",
            _averaged(at, weight, rows[name].to_numpy(zero_copy_only=False), count),
        )

    per_second = np.bincount(at, weights=weight, minlength=count) * count / ((end_ns - start_ns) / 1e9)
    load = [float(value) if value > 0 else None for value in per_second]
    mean, p95, failing = curve("mean_us"), curve("p95_us"), curve("failing")
    edges = (start_ns, end_ns)
    watched = site.watched()
    incidents = watched.incidents_between(start_ns, end_ns)
    deployments = watched.deployments_between(start_ns, end_ns)
    blocks: list[Block] = []
    if incidents or deployments:
        marks = marks_of(incidents, deployments, start_ns, end_ns)
        blocks.append(
            Drawing(draw_marks("Incidents and deployments", marks), caption="Incidents and deployments")
        )
    drawings = [
        draw_by_time(
            "95th percentile and mean",
            f"highest {wording.duration(_top(p95[1]) or _top(mean[1]))}",
            [p95, ("area", mean[1])],
            edges,
            axis=True,
        ),
        draw_by_time(
            "failing",
            f"highest {wording.percent(_top(failing[1]) or 0.0)}",
            [("bad", failing[1])],
            edges,
            axis=True,
        ),
        draw_by_time(
            "requests a second",
            f"highest {wording.significant(_top(load) or 0.0)}",
            [("area", load)],
            edges,
            axis=True,
        ),
    ]
    blocks += [Drawing(one) for one in drawings]
    if incidents:
        blocks.append(
            Part("Incidents in this time", (Items([incident_words(site.links, one) for one in incidents]),))
        )
    return blocks


def _averaged(at: np.ndarray[Any, Any], weight: F8, values: F8, count: int) -> list[float | None]:
    """[count] weighted mean of the values with each index in `at`; None for an index without a value."""
    there = ~np.isnan(values)
    total = np.bincount(at[there], weights=weight[there], minlength=count)
    summed = np.bincount(at[there], weights=weight[there] * values[there], minlength=count)
    return [float(s / w) if w > 0 else None for s, w in zip(summed, total, strict=True)]


def _top(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _choose(site: Site, start_ns: int, end_ns: int, span: str, above: Markup) -> Answer:
    """Page with a list of call sites to choose from, and links to hosts and versions."""
    summed = site.sites.between(start_ns, end_ns)
    names = site.sites.names
    rows = _by_site(summed.rows)[:MOST_SITES]

    def name(row: dict[str, Any]) -> Words:
        words = names[row["site"]]
        label = wording.clip(f"{words.component}/{words.operation}", 120)
        caller = dim(f" from {wording.clip(words.caller, 80)}") if words.caller else ""
        return (Styled(label, href=site.links.to("timeline", site=str(row["site"]), span=span)), caller)

    columns = (
        Column("", "Call site", "text", name),
        Column("", "Requests", "figure", lambda row: wording.count(int(row["requests"]))),
        Column("", "Waited for, a request", "figure", lambda row: wording.duration(row["critical_us"])),
        Column("", "Failing", "figure", lambda row: wording.percent(row["failing"])),
    )
    others = Items(
        [
            (Styled("Hosts", href=site.links.to("timeline", by="host", span=span)), dim(" that ran spans")),
            (
                Styled("Versions", href=site.links.to("timeline", by="version", span=span)),
                dim(" of each component"),
            ),
        ]
    )
    blocks: list[Block] = [others]
    if summed.missing:
        note = f"{wording.counted(summed.missing, 'window')} of this time are still being read."
        blocks.append(Text(note, "dim"))
    grid = Grid("Call sites", columns, rows, first=50)
    blocks.append(Part("Call sites", (grid,), note="most time first; roots are on Now"))
    return Answer(
        "Timeline of a call site",
        blocks,
        above=above,
        data={
            "windows_not_read": summed.missing,
            "sites": [row | dataclasses.asdict(names[row["site"]]) for row in rows],
        },
        refresh_seconds=REFRESH_SECONDS if summed.missing else None,
    )


def _by_site(rows: pa.Table) -> list[dict[str, Any]]:
    """Totals of each call site over all windows, largest share of response times first."""
    found, code = np.unique(rows["site"].to_numpy(), return_inverse=True)
    requests = rows["requests"].to_numpy().astype(np.float64)
    totals = np.bincount(code, requests, len(found))
    waited, failing = (
        np.bincount(code, requests * np.nan_to_num(rows[name].to_numpy(zero_copy_only=False)), len(found))
        for name in ("critical_us", "failing")
    )
    order = np.lexsort((found, -waited)).tolist()
    return [
        {
            "site": int(found[at]),
            "requests": int(totals[at]),
            "critical_us": float(waited[at] / totals[at]),
            "failing": float(failing[at] / totals[at]),
        }
        for at in order
        if totals[at]
    ]


def _choose_instance(site: Site, by: str, period: str, span: str, above: Markup) -> Answer:
    """Page with a list of hosts or versions (`by`) to choose from."""
    with site.queries.borrowed(site.known().token, period) as session:
        rows = session.query(statement("instances"), {"what": by, "most": MOST_SITES}).to_pylist()

    def name(row: dict[str, Any]) -> Words:
        given = (
            {"host": row["value"]}
            if by == "host"
            else {"component": row["component"], "version": row["value"]}
        )
        return Styled(wording.clip(row["value"], 80), href=site.links.to("timeline", **given, span=span))

    columns = (
        Column("", by.capitalize(), "text", name),
        Column("", "Component", "name", lambda row: row["component"]),
        Column("", "Spans", "figure", lambda row: wording.count(row["spans"])),
        Column("", "Mean", "figure", lambda row: wording.duration(row["mean_us"])),
        Column("", "Failing", "figure", lambda row: wording.percent(row["failing"])),
    )
    grid: Block = Grid(f"{by.capitalize()}s", columns, rows, first=50) if rows else Text("No span has one.")
    return Answer(f"Timeline of a {by}", (grid,), above=above, data={f"{by}s": rows})
