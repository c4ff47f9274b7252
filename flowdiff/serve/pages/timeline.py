"""Page *Timeline*: response times, errors and load of a root, or of a call site, by window.

Of a root the numbers are the rows that *Now* has; of a call site they are rows of the view `call_sites`,
which are read when the page is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyze.report import wording
from analyze.report.blocks import Block, Column, Drawing, Grid, Items, Part, Styled, Text, Words, dim
from analyze.report.drawing.heat_strip import draw_marks
from analyze.report.drawing.wide_charts import Series, draw_by_time
from flowdiff.serve.answer import Answer, Asked
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
"""Points of a curve; more windows are joined."""
MOST_SITES: Final = 200
"""Call sites listed, those with the largest part of response times."""


def timeline(site: Site, asked: Asked) -> Answer:
    """Show the course of a root or a call site, or what there is to choose from."""
    known = site.known()
    if known.is_empty:
        return empty(site)
    usual = default_span(known)
    span = asked.chosen("span", (usual, *(name for name in SPANS if name != usual)))
    start_ns, end_ns = shown_time(known, span)
    root, key = asked.one("root"), asked.one("site")
    if key and not key.removeprefix("-").isdigit():
        raise ConfigError("site is the key of a call site.")
    above = span_choice(
        site.shell,
        span,
        start_ns,
        end_ns,
        lambda name: site.links.to("timeline", root=root, site=key, span=name),
    )
    period = f"{format_instant(start_ns)}/{format_instant(end_ns)}"
    if key:
        with site.queries.borrowed(known.token, period) as session:
            rows = session.query(statement("site_by_window"), {"site": int(key)})
        if not rows.num_rows:
            raise NotFoundError(f"There is no call site {key} in this time.")
        first = rows.slice(0, 1).to_pylist()[0]
        title = f"{first['component']}/{first['operation']}"
        query = shown("site_by_window", {"site": int(key)})
    elif root:
        summed = site.responses.between(start_ns, end_ns)
        rows = summed.rows.filter(pc.field("root") == root)
        if not rows.num_rows and summed.missing:
            note = f"{wording.counted(summed.missing, 'window')} of this time are still being read."
            return Answer(root, (Text(note),), {"windows": []}, above, refresh_seconds=REFRESH_SECONDS)
        if not rows.num_rows:
            raise NotFoundError(f"There is no root '{root}' in this time.", remedy="See Now for the roots.")
        title = root
        query = shown("root_by_window", {"root": root})
    else:
        return _choose(site, period, span, above)
    blocks = [*_drawn(site, rows, start_ns, end_ns)]
    blocks.append(site.shell.same_in_sql(query, period))
    return Answer(
        wording.clip(title, 160), blocks, above=above, data={"title": title, "windows": rows.to_pylist()}
    )


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
    """[count] mean of values by place, weighted; None where there is none."""
    there = ~np.isnan(values)
    total = np.bincount(at[there], weights=weight[there], minlength=count)
    summed = np.bincount(at[there], weights=weight[there] * values[there], minlength=count)
    return [float(s / w) if w > 0 else None for s, w in zip(summed, total, strict=True)]


def _top(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _choose(site: Site, period: str, span: str, above: Any) -> Answer:
    with site.queries.borrowed(site.known().token, period) as session:
        rows = session.query(statement("call_sites"), {"most": MOST_SITES}).to_pylist()

    def name(row: dict[str, Any]) -> Words:
        label = wording.clip(f"{row['component']}/{row['operation']}", 120)
        caller = dim(f" from {wording.clip(row['caller'], 80)}") if row["caller"] else ""
        return (Styled(label, href=site.links.to("timeline", site=str(row["site"]), span=span)), caller)

    columns = (
        Column("", "Call site", "text", name),
        Column("", "Requests", "figure", lambda row: wording.count(int(row["requests"]))),
        Column("", "Waited for, a request", "figure", lambda row: wording.duration(row["critical_us"])),
        Column("", "Failing", "figure", lambda row: wording.percent(row["failing"])),
    )
    grid = Grid("Call sites", columns, rows, first=50)
    return Answer(
        "Timeline of a call site",
        (Part("Call sites", (grid,), note="most time first; roots are on Now"),),
        above=above,
        data={"sites": rows},
    )
