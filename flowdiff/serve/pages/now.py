"""Page *Now*: response times by root over the last day or week as heat strips, with incidents on them.

The time shown ends with the lake's last window, so that a recording of last year has a *Now*, too. Numbers by
root are rows of the view `responses`; numbers of all requests are counts from the lake's commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from analyze.report import wording
from analyze.report.blocks import (
    Block,
    Column,
    Drawing,
    Fact,
    Facts,
    Grid,
    Items,
    Part,
    Styled,
    Text,
    Words,
    dim,
    strong,
)
from analyze.report.drawing.heat_strip import Mark, draw_axis, draw_heat, draw_marks
from analyze.report.drawing.wide_charts import clock_ticks
from flowdiff.serve.answer import Answer, Asked
from flowdiff.serve.event_marks import marks_of
from flowdiff.serve.pages.empty import empty
from flowdiff.serve.root_strips import RootStrip, root_strips
from flowdiff.serve.site import Site
from flowdiff.serve.spans_of_time import SPAN_NAMES, SPANS, default_span, shown_time, span_choice
from flowdiff.serve.statements import shown
from flowdiff.serve.watched import incident_words
from schemas.periods import format_instant

REFRESH_SECONDS: Final = 5
"""Interval at which a browser reloads an incomplete page, s."""
MOST_CELLS: Final = 288
"""Maximum number of cells in a strip: windows of five minutes in a day."""
MOST_ROOTS: Final = 20
"""Maximum number of root types with a strip, the ones with the most total time; the number of the rest is
shown."""


def now(site: Site, asked: Asked) -> Answer:
    """Show response times by root type over the last day or week of the lake (parameter `span`)."""
    known = site.known()
    if known.is_empty:
        return empty(site)
    usual = default_span(known)
    span = asked.chosen("span", (usual, *(name for name in SPANS if name != usual)))
    start_ns, end_ns = shown_time(known, span)
    summed = site.responses.between(start_ns, end_ns)
    n_cells = min(MOST_CELLS, max((end_ns - start_ns) // known.windows[-1].window.length_ns, 1))
    strips = root_strips(summed.rows, start_ns, end_ns, n_cells)
    watched = site.watched()
    incidents = watched.incidents_between(start_ns, end_ns)
    deployments = watched.deployments_between(start_ns, end_ns)
    here = [entry for entry in known.windows if entry.window.start_ns >= start_ns]
    requests = sum(entry.flows for entry in here)
    open_ones = [one for one in incidents if one.goes_on]
    rows: list[RootStrip | str] = [
        "axis",
        *(["marks"] if incidents or deployments else []),
        *strips[:MOST_ROOTS],
    ]
    marks = marks_of(incidents, deployments, start_ns, end_ns)
    columns = (
        Column("", "Root", "text", lambda row: _name(site, row)),
        Column(
            "", "Response time, against the usual", "text", lambda row: _strip(row, marks, start_ns, end_ns)
        ),
        Column(
            "", "Requests", "figure", lambda row: "" if isinstance(row, str) else wording.count(row.requests)
        ),
        Column(
            "", "Mean", "figure", lambda row: "" if isinstance(row, str) else wording.duration(row.mean_us)
        ),
        Column(
            "",
            "Highest p95",
            "figure",
            lambda row: "" if isinstance(row, str) else wording.duration(row.p95_us),
            far=1,
        ),
        Column(
            "", "Failing", "figure", lambda row: "" if isinstance(row, str) else wording.percent(row.failing)
        ),
    )
    blocks: list[Block] = []
    if summed.missing:
        noun = wording.counted(summed.missing, "window")
        blocks.append(
            Text(
                f"{noun} of {wording.count(len(here))} {'is' if summed.missing == 1 else 'are'} being read;"
                " strips fill up.",
                "warning",
            )
        )
    if open_ones:
        blocks.append(
            Part("Open incidents", (Items([incident_words(site.links, one) for one in open_ones]),))
        )
    total_failing = _failing(summed.rows)
    blocks.append(
        Facts(
            (
                Fact("requests", strong(wording.count(requests))),
                Fact("mean", strong(wording.duration(_mean(summed.rows)))),
                Fact("failing", strong(wording.percent(total_failing))),
                Fact("roots", strong("–" if summed.missing and not strips else wording.count(len(strips)))),
                Fact("open incidents", strong(wording.count(len(open_ones)))),
            ),
            look="numbers",
        )
    )
    grid = Grid("Response times by root", columns, rows, first=None)
    blocks.append(Part("Roots", (_Brushed(site, grid, start_ns, end_ns).block,), note="most time first"))
    if len(strips) > MOST_ROOTS:
        blocks.append(Text(f"and {wording.counted(len(strips) - MOST_ROOTS, 'more root')}", "dim"))
    query = shown("roots", {"first": format_instant(start_ns), "past": format_instant(end_ns)})
    blocks.append(site.shell.same_in_sql(query))
    return Answer(
        f"The last {SPAN_NAMES[span]}",
        blocks,
        above=span_choice(site.shell, span, start_ns, end_ns, lambda name: site.links.to(span=name)),
        data={
            "from": format_instant(start_ns),
            "to": format_instant(end_ns),
            "requests": requests,
            "windows": len(here),
            "windows_not_read": summed.missing,
            "roots": [
                {
                    "root": one.root,
                    "requests": one.requests,
                    "mean_us": one.mean_us,
                    "p95_us": one.p95_us,
                    "failing": one.failing,
                }
                for one in strips
            ],
            "open_incidents": [one.id for one in open_ones],
            "incidents": [one.id for one in incidents],
            "deployments": [{"at": format_instant(one.at_ns), "text": one.text} for one in deployments],
        },
        refresh_seconds=REFRESH_SECONDS if summed.missing else None,
        script=True,
    )


@dataclass(frozen=True, slots=True)
class _Brushed:
    """Heat strips on which a pointer can choose periods."""

    site: Site
    grid: Grid
    start_ns: int
    end_ns: int

    @property
    def block(self) -> Block:
        """The strips inside an HTML element, by which the script for choosing periods finds them."""
        from analyze.report.page import blocks_html

        return Drawing(
            self.site.shell.rendered(
                "brush.html.jinja",
                inside=blocks_html((self.grid,), "-roots", 3),
                start_ms=self.start_ns // 10**6,
                end_ms=self.end_ns // 10**6,
                step_ms=self.site.known().windows[-1].window.length_ns // 10**6,
                compare=self.site.links.to("compare"),
            )
        )


def _name(site: Site, row: RootStrip | str) -> Words:
    if isinstance(row, str):
        return dim("incidents, deployments") if row == "marks" else ""
    return Styled(wording.clip(row.root, 120), href=site.links.to("timeline", root=row.root))


def _strip(row: RootStrip | str, marks: Sequence[Mark], start_ns: int, end_ns: int) -> Words:
    if isinstance(row, RootStrip):
        return Drawing(draw_heat(row.title, row.cells))
    if row == "axis":
        return Drawing(draw_axis("Time", clock_ticks(start_ns, end_ns)[::2]))
    return Drawing(
        draw_marks(
            f"{wording.counted(len(marks), 'incident or deployment', 'incidents and deployments')}", marks
        )
    )


def _mean(rows: pa.Table) -> float | None:
    weight = rows["weighted"].to_numpy()
    return float(weight @ rows["mean_us"].to_numpy() / weight.sum()) if rows.num_rows else None


def _failing(rows: pa.Table) -> float | None:
    weight = rows["weighted"].to_numpy()
    return float(weight @ rows["failing"].to_numpy() / weight.sum()) if rows.num_rows else None
