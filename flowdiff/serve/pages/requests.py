"""Page of one request: swim lanes beside those of its twin, and the differences.

The twin is the request that `beside` names; else, if a report led here, an example of the other period for
the same finding; else a normal request of the same root type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from analyze.report import wording
from analyze.report.blocks import (
    Beside,
    Block,
    Blocks,
    Column,
    Drawing,
    Fact,
    Facts,
    Grid,
    Only,
    Part,
    Styled,
    Text,
    Words,
    code,
    dim,
    tag,
)
from analyze.report.drawing.swimlane import Activity, activities
from analyze.report.drawing.swimlane_chart import draw_swimlanes
from analyze.sql.browse import StoredFlow, find_flow
from analyze.sql.connection import statement
from analyze.sql.session_process import SessionProcess
from flowdiff.serve.answer import Answer, Asked
from flowdiff.serve.report_pages import Stored, finding_address, named_report
from flowdiff.serve.site import Site
from schemas.errors import NotFoundError
from schemas.quality import Quality
from schemas.report.findings import Example, Finding, FindingsSection
from schemas.trace_urls import TRACE_ID

MOST_BARS: Final = 120
"""Maximum number of bars drawn for a request; for the rest only their number is shown."""
MOST_ROWS: Final = 15
"""Maximum number of kinds of work listed as different, the ones with the largest difference."""


@dataclass(frozen=True, slots=True)
class Place:
    """Kind of work in a request or its twin, with the time that the response waited for it, µs, in each of
    the two."""

    lane: str
    name: str
    this_us: float | None
    """Time in this request, µs; None if the work does not occur in it."""
    other_us: float | None

    @property
    def change_us(self) -> float:
        """`this_us` minus the time in the other request, µs; a missing time counts as 0."""
        return (self.this_us or 0.0) - (self.other_us or 0.0)


def request(site: Site, asked: Asked) -> Answer:
    """Show a request beside its twin (a similar request of another period, or a normal one)."""
    stored = named_report(site, asked)
    pair = request_pair(site, asked.path["request"], asked.one("kind") or None, stored, asked.one("beside"))
    return Answer(
        wording.clip(str(pair.this.flow["request_id"]), 80),
        request_blocks(site, pair),
        data={"request": _data(pair.this), "twin": None if pair.that is None else _data(pair.that)},
    )


def request_pair(
    site: Site, request_id: str, kind: str | None, stored: Stored | None, beside: str
) -> RequestPair:
    """Read a request and its twin (a request to compare it with).

    kind: as in `find_flow`; stored: report by which the twin is chosen; beside: id of the twin, if given.
    Raises NotFoundError.
    """
    finding, twin = _of_report(stored, request_id)
    with site.queries.borrowed(site.known().token) as session:
        found = find_flow(session, request_id, kind)
        other = _twin(session, found, beside or twin)
    return RequestPair(Shown.of(found), None if other is None else Shown.of(other), stored, finding)


def request_blocks(site: Site, pair: RequestPair) -> Blocks:
    """Blocks of a request page: facts, swim lanes side by side, differences in waiting time and in
    parameters.
    """
    this, that = pair.this, pair.that
    axis_us = max([this.end_us, 0.0 if that is None else that.end_us])
    lanes: list[Block] = [_lanes(site, "This request", this, axis_us)]
    if that is not None:
        lanes.append(_lanes(site, _side(pair.finding, str(that.flow["request_id"])), that, axis_us))
    blocks: list[Block] = [
        Facts(list(_facts(site, pair))),
        Beside(lanes),
        Only("page", (Text(_LEGEND, "dim"),)),
    ]
    if that is not None and (rows := differing(this.bars, that.bars)):
        grid = Grid("What differs", _DIFFERING, rows[:MOST_ROWS], len(rows))
        blocks.append(Part("What differs", (grid,), note="time that the response waited for"))
    if params := _params(this.stored, None if that is None else that.stored):
        blocks.append(Part("Parameters that differ", (Grid("Parameters", _PARAMS, params),)))
    return blocks


@dataclass(frozen=True, slots=True)
class Shown:
    """A stored request with the bars of its swim lanes."""

    stored: StoredFlow
    bars: Sequence[Activity]

    @classmethod
    def of(cls, stored: StoredFlow) -> Shown:
        """Compute the bars of a stored request's swim lanes."""
        return cls(stored, activities(stored.flow, stored.structure))

    @property
    def flow(self) -> Mapping[str, Any]:
        """Row of the request in `flows`, with the columns of FLOWS_SCHEMA."""
        return self.stored.flow

    @property
    def response_us(self) -> float:
        """Response time of the request, µs."""
        return float(self.flow["response_ns"]) / 1e3

    @property
    def end_us(self) -> float:
        """End of the time axis on which to draw the request, µs: end of the last bar, limited to 1 to 1.5
        times the response time.
        """
        last = max((bar.end_us for bar in self.bars), default=0.0)
        return max(self.response_us, min(last, 1.5 * self.response_us))


@dataclass(frozen=True, slots=True)
class RequestPair:
    """A request and its twin (the request to compare it with), and the finding that led to them."""

    this: Shown
    that: Shown | None
    """Twin of the request; None if the lake has no other request of this root type."""
    report: Stored | None
    """Report from which the page was opened; None: it was opened from elsewhere."""
    finding: Finding | None
    """Finding in `report` of which the request is an example; None: there is none."""


def _of_report(stored: Stored | None, request_id: str) -> tuple[Finding | None, str]:
    """(finding that has the request as an example, id of an example of the other period or ""); (None, "") if
    there is none.
    """
    if stored is None:
        return None, ""
    sections = [one for one in stored.report.sections if isinstance(one, FindingsSection)]
    for finding in (finding for section in sections for finding in section.findings):
        mine = next((one for one in finding.examples if one.request_id == request_id), None)
        if mine is not None:
            others = [one for one in finding.examples if one.sample != mine.sample]
            others.sort(key=lambda one: (one.what != "typical", abs(one.response_us - mine.response_us)))
            return finding, others[0].request_id if others else ""
    return None, ""


def _twin(session: SessionProcess, found: StoredFlow, named: str) -> StoredFlow | None:
    """Twin of request `found`: the request with id `named`, else a normal request of the same root type; None
    if there is none."""
    if named:
        try:
            return find_flow(session, named)
        except NotFoundError:
            return None
    rows = session.query(statement("request_like"), [found.flow["root"], found.flow["start_ns"]]).to_pylist()
    rows = rows or session.query(statement("request_like"), [found.flow["root"], None]).to_pylist()
    if not rows or rows[0]["request_id"] == found.flow["request_id"]:
        return None
    return find_flow(session, rows[0]["request_id"], rows[0]["kind"])


def differing(this: Sequence[Activity], other: Sequence[Activity]) -> list[Place]:
    """Kinds of work with a different waiting time in two requests, largest difference first; instances of a
    component count as one."""
    here, there = _waited(this), _waited(other)
    places = [Place(*key, here.get(key), there.get(key)) for key in {**here, **there}]
    moved = [place for place in places if place.this_us != place.other_us]
    return sorted(moved, key=lambda place: (-abs(place.change_us), place.lane, place.name))


def _waited(bars: Sequence[Activity]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for bar in bars:
        key = (bar.lane.partition("@")[0], bar.name)
        found[key] = found.get(key, 0.0) + bar.critical_us
    return found


_DIFFERING: Final = (
    Column("lane", "Component", "name"),
    Column("name", "Work", "name"),
    Column(
        "",
        "The other",
        "text",
        lambda row: "not there" if row.other_us is None else wording.duration(row.other_us),
    ),
    Column(
        "",
        "This one",
        "text",
        lambda row: "not there" if row.this_us is None else wording.duration(row.this_us),
    ),
    Column("", "Difference", "figure", lambda row: wording.change(row.change_us)),
)
_PARAMS: Final = (
    Column("", "At", "name", lambda row: row[0]),
    Column("", "Parameter", "text", lambda row: code(wording.clip(row[1], 60))),
    Column("", "The other", "text", lambda row: wording.clip(row[3], 120)),
    Column("", "This one", "text", lambda row: wording.clip(row[2], 120)),
)
_LEGEND: Final[Words] = (
    Styled("", "swatch", "waited"),
    "work that the response waited for ",
    Styled("", "swatch", "other"),
    "other work. Both requests are drawn on one axis of time.",
)


def _lanes(site: Site, title: str, shown: Shown, axis_us: float) -> Block:
    request_id = str(shown.flow["request_id"])
    drawn = shown.bars[:MOST_BARS]
    caption: Words = (
        f"{title}: ",
        Styled(wording.clip(request_id, 40), "code", href=site.links.to("requests", request_id)),
        dim(f", {wording.duration(shown.response_us)}, {shown.flow['status']}"),
    )
    more = len(shown.bars) - len(drawn)
    legend = f"and {wording.counted(more, 'more bar')}" if more else ""
    return Drawing(draw_swimlanes(f"{title}, swim lanes", drawn, axis_us), caption=caption, legend=legend)


def _side(finding: Finding | None, request_id: str) -> str:
    example = _example(finding, request_id)
    return "An ordinary request of the same root" if example is None else f"Its twin of the {example.sample}"


def _example(finding: Finding | None, request_id: str) -> Example | None:
    examples = () if finding is None else finding.examples
    return next((one for one in examples if one.request_id == request_id), None)


def _facts(site: Site, pair: RequestPair) -> Iterator[Fact]:
    shown, stored, finding = pair.this, pair.report, pair.finding
    flow = shown.flow
    started = datetime.fromtimestamp(flow["start_ns"] / 1e9, UTC)
    status: Words = tag(flow["status"], "" if flow["status"] == "ok" else "failing")
    yield Fact(
        "root", Styled(wording.clip(flow["root"], 120), href=site.links.to("timeline", root=flow["root"]))
    )
    yield Fact("started", f"{started:%Y-%m-%d %H:%M:%S.%f} UTC")
    yield Fact(
        "response",
        (
            wording.duration(shown.response_us),
            " ",
            status,
            dim(f" {flow['inner_status']} inside") if flow["inner_status"] else "",
        ),
    )
    if flags := [str(flag.name).lower() for flag in Quality if flow["quality"] & flag]:
        yield Fact("quality", ", ".join(flags))
    if finding is not None and stored is not None:
        yield Fact(
            "example of",
            Styled(finding.title, href=finding_address(site, stored, finding.rank)),
        )
    info = site.known().info
    if info is not None and info.trace_url:
        raw = info.trace_url.replace(TRACE_ID, quote(str(flow["request_id"]), safe=""))
        yield Fact("raw trace", Styled("open in the tracing tool", href=raw))
    yield Fact("in a terminal", code(f"flowdiff flow {flow['request_id']} --lake {site.lake}"))


def _params(found: StoredFlow, other: StoredFlow | None) -> list[tuple[str, str, str, str]]:
    """Parameters whose values differ between two requests: (place, key, value in `found`, value in `other`);
    empty if `other` is None."""
    if other is None:
        return []
    here, there = _values(found), _values(other)
    return [
        (place, key, here.get((place, key), "–"), there.get((place, key), "–"))
        for place, key in sorted({**here, **there})
        if here.get((place, key)) != there.get((place, key))
    ]


def _values(stored: StoredFlow) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for row in stored.params:
        node = stored.structure["nodes"][row["position"]]
        value = str(row["text"]) if row["num"] is None else wording.significant(row["num"], 12)
        found.setdefault((f"{node['component']}/{node['point']}", row["key"]), value)
    return found


def _data(shown: Shown) -> dict[str, Any]:
    flow = shown.flow
    return {
        **{name: flow[name] for name in ("request_id", "kind", "root", "start_ns")},
        "response_us": shown.response_us,
        "status": flow["status"],
        "bars": [
            {
                "lane": bar.lane,
                "name": bar.name,
                "depth": bar.depth,
                "start_us": bar.start_us,
                "end_us": bar.end_us,
                "waited_us": bar.critical_us,
                "failed": bar.failed,
            }
            for bar in shown.bars
        ],
    }
