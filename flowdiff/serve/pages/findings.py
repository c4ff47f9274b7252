"""Page of one finding: its numbers, the calls around it, and requests of both periods.

Its address names the question, so that it stays valid when the result has to be computed again; or it names
an existing report or result.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analyze.methods.robust.sections.findings import alone
from analyze.methods.robust.sections.picture import picture_blocks
from analyze.report import wording
from analyze.report.blocks import Beside, Block, Column, Grid, Part, Styled, Text, Words
from flowdiff.cli.version import version
from flowdiff.serve.answer import Answer, Asked, Moved, Reply, whole_number
from flowdiff.serve.jobs.question import Question, asked_question, identity
from flowdiff.serve.pages.compare import address, offered, run_by
from flowdiff.serve.report_pages import Stored, named_report, report_address, requests_link, result
from flowdiff.serve.site import Site
from schemas.errors import ConfigError, NotFoundError
from schemas.report.findings import Finding, FindingsSection
from stitch.lake.layout import REPORTS
from stitch.lake.place import open_store

_MOST_RANK: Final = 1_000_000
SHOWN: Final = 20
"""Maximum number of requests listed per period."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that is an example of the finding."""

    request_id: str
    kind: str
    response_us: float | None
    """Response time, µs; None in a report of an older version."""


@dataclass(frozen=True, slots=True)
class _Side:
    """Requests of one period that are examples of the finding."""

    name: str
    total: int
    slowest: Sequence[_Request]
    twin: str
    """Id of the request of the other period that is drawn beside each request of this period; empty: none."""


def finding(site: Site, asked: Asked) -> Reply:
    """Show one finding; if its question has no result, redirect to the question."""
    rank = _rank(asked.path["rank"])
    stored = named_report(site, asked)
    question: Question | None = None
    if stored is None:
        question = asked_question(
            run_by(asked.chosen("method", offered())), asked.query, site.known(), site.clock_ns()
        )
        if question is None:
            raise ConfigError("Name a report, or two periods.", remedy="Choose them on Compare.")
        stored = result(site, identity(question, site.known(), version()), question)
        if stored is None:
            return Moved(address(site, question))
    report = stored.report
    sections = [one for one in report.sections if isinstance(one, FindingsSection)]
    found = next((one for section in sections for one in section.findings if one.rank == rank), None)
    if found is None:
        n = sum(len(section.findings) for section in sections)
        raise NotFoundError(
            f"The report has no finding {rank}.", remedy=f"It shows {wording.counted(n, 'finding')}."
        )
    sides = _sides(site, stored, found)
    pictured = report.picture is not None and any(
        step.leads and step.finding == rank for step in report.picture.steps
    )
    whole = report_address(site, stored) if question is None else address(site, question)
    glance, on_demand = alone(found, sections[0])
    blocks: list[Block] = [
        Text(_ways_on(site, stored, f"{whole}#f{rank}")),
        *glance,
        *(picture_blocks(report.picture) if pictured and report.picture is not None else ()),
        Part(
            "Requests of both sides",
            (Beside([_grid(site, stored, side) for side in sides]),),
            note="slowest first; each leads to its swim lanes beside those of one of the other side",
        ),
        *on_demand,
    ]
    return Answer(
        wording.clip(found.title, 200),
        blocks,
        data={
            "finding": found,
            "report": report.id,
            "requests": {
                side.name: {
                    "total": side.total,
                    "slowest": [
                        {"request_id": one.request_id, "response_us": one.response_us} for one in side.slowest
                    ],
                }
                for side in sides
            },
        },
        trace_url=requests_link(site.links, stored),
    )


def _ways_on(site: Site, stored: Stored, report: str) -> Words:
    whole = Styled("The whole report", href=report)
    if not stored.question:
        return whole
    paths = site.links.to("compare", **({**stored.question} | {"method": "paths"}))
    return (whole, " · ", Styled("Whole paths of these periods", href=paths))


def _rank(text: str) -> int:
    found = whole_number(text, 1, _MOST_RANK)
    if found is None:
        raise NotFoundError(f"'{wording.clip(text, 40)}' is no rank of a finding.")
    return found


def _sides(site: Site, stored: Stored, found: Finding) -> tuple[_Side, _Side]:
    """Requests of each period that are examples of the finding: from the table `requests` of the report, else
    the report's examples."""
    table = _affected(site, stored, found)
    before, after = (
        table.filter(pc.field("sample") == name).sort_by(
            [("response_us", "descending"), ("request_id", "ascending")]
        )
        for name in ("reference", "problem")
    )
    return (
        _Side(
            "reference",
            before.num_rows,
            _listed(before) or _examples(found, "reference"),
            _middle(after) or _example(found, "problem"),
        ),
        _Side(
            "problem",
            after.num_rows,
            _listed(after) or _examples(found, "problem"),
            _middle(before) or _example(found, "reference"),
        ),
    )


_COLUMNS: Final = ["sample", "request_id", "kind", "response_us"]


def _affected(site: Site, stored: Stored, found: Finding) -> pa.Table:
    with suppress(OSError, pa.ArrowInvalid):  # damaged, or removed meanwhile
        source = _requests_file(site, stored)
        if source is not None and (table := affected_by(source, found.rank)).num_rows:
            return table
    examples = found.examples
    return pa.table(
        {
            "sample": pa.array([one.sample for one in examples], pa.string()),
            "request_id": pa.array([one.request_id for one in examples], pa.string()),
            "kind": pa.array(["" for _ in examples], pa.string()),
            "response_us": pa.array([one.response_us for one in examples], pa.float64()),
        }
    )


def affected_by(source: Path | pa.NativeFile, rank: int) -> pa.Table:
    """Rows of a table `requests` for the requests affected by one finding; row groups of other findings are
    not read.

    For a table of an older version the response times are null.
    """
    there = pq.read_schema(source).names
    mine = (pc.field("rank") == rank) & (pc.field("role") == "affected")
    columns = [name for name in _COLUMNS if name in there]
    table = pq.read_table(source, columns=columns, filters=mine, use_threads=False)
    if "response_us" not in there:
        table = table.append_column("response_us", pa.nulls(table.num_rows, pa.float64()))
    return table


def _requests_file(site: Site, stored: Stored) -> Path | pa.NativeFile | None:
    """File of the report's table `requests`; None if it does not exist."""
    if key := stored.link.get("job"):
        return site.jobs.results.table_file(key, "requests")
    return pa.BufferReader(open_store(site.lake).read(f"{REPORTS}/{stored.link['report']}/requests.parquet"))


def _listed(table: pa.Table) -> list[_Request]:
    return [
        _Request(row["request_id"], row["kind"], row["response_us"])
        for row in table.slice(0, SHOWN).select(_COLUMNS[1:]).to_pylist()
    ]


def _examples(found: Finding, sample: str) -> list[_Request]:
    """Example requests of a finding from one period; normal ones if no request of the period shows the
    finding.
    """
    return [_Request(one.request_id, "", one.response_us) for one in found.examples if one.sample == sample]


def _example(found: Finding, sample: str) -> str:
    """Id of an example request from one period; empty if there is none."""
    return next((one.request_id for one in _examples(found, sample)), "")


def _middle(table: pa.Table) -> str:
    """Id of the request with the median response time; empty if there is none."""
    return str(table["request_id"][table.num_rows // 2]) if table.num_rows else ""


def _grid(site: Site, stored: Stored, side: _Side) -> Block:
    if not side.slowest:
        return Text(f"No request of the {side.name} is known.", "dim")

    def link(row: _Request) -> Styled:
        href = site.links.to("requests", row.request_id, **stored.link, beside=side.twin, kind=row.kind)
        return Styled(wording.clip(row.request_id, 40), "code", href=href)

    columns = (
        Column("", f"Of the {side.name}{'' if side.total else ', without it'}", "text", link),
        Column("response_us", "Response", "us"),
    )
    return Grid(f"Requests of the {side.name}", columns, side.slowest, side.total or None)
