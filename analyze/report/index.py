"""Reports of a lake, newest first, and `reports/index.html`, which links to them.

The folders are authoritative. `index.json` beside them caches one row per report, so that a report is read
once: the next reader drops rows of deleted reports and adds missing ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup
from pydantic import ValidationError

from analyze.report.blocks import Column, Grid, Part, Styled, Text
from analyze.report.page import STYLE, blocks_html, csp_hash, source, template
from analyze.report.store import HTML_FILE, JSON_FILE, put_same
from analyze.report.wording import percent
from schemas.report.accounts import AccountSection
from schemas.report.findings import FindingsSection
from schemas.report.parts import Frozen
from schemas.report.report import Report, from_json
from stitch.lake.layout import REPORT_INDEX, REPORTS, own_stage, report_folders
from stitch.lake.place import LakePlace
from stitch.lake.store import Store

INDEX_PAGE, INDEX_ROWS = (f"{REPORTS}/{name}" for name in REPORT_INDEX)
LISTED: Final = 1_000
"""Maximum number of reports on the page `index.html`: three years of daily comparisons."""


_READ: Final = (FindingsSection, AccountSection)
"""Types of the sections from which rows of the index are made."""


class KeptReport(Frozen):
    """Row of the index, for one report of a lake."""

    id: str
    kept_ns: int
    """Time at which the report was written, ns since the epoch."""
    periods: str
    """Texts of the compared periods: `2026-11-18/2026-11-19 → 2026-11-19/2026-11-20`."""
    method: str
    outcome: str
    """Outcome of the verdict in one word, e.g. `unchanged`."""
    verdict: str
    headline: str
    mean: str
    """Change of the mean response time and its significance, in words."""
    finding: str = ""
    """Title of the first finding; empty without one."""
    findings: int = 0
    said: str = ""
    """First sentence of the page, shown in the list if the report has no finding."""

    @property
    def path(self) -> str:
        """Path of the report's page in the lake."""
        return f"{REPORTS}/{self.id}/{HTML_FILE}"


class _Index(Frozen):
    """Content of `index.json`."""

    page_bytes: int
    """Size of the page `index.html` made from `rows`, bytes; if the stored page has another size, another
    process has replaced it."""
    rows: tuple[KeptReport, ...]


def kept_reports(place: LakePlace) -> list[KeptReport]:
    """Finished reports of a lake, newest first; updates the index if it is outdated and writable.

    Reports that are unreadable, or of another report version, are skipped. Raises OSError.
    """
    store = place.store
    index = _read_index(store)
    known = {row.id: row for row in index.rows}
    names = report_folders(store.names(REPORTS))
    sizes = store.sizes([f"{REPORTS}/{name}/{JSON_FILE}" for name in names])
    rows = [
        row
        for name, size in zip(names, sizes, strict=True)
        if size is not None and (row := known.get(name) or _row(store, name)) is not None
    ]
    rows.sort(key=lambda row: (-row.kept_ns, row.id))
    if {row.id for row in rows} != {*known} or (rows and store.size(INDEX_PAGE) != index.page_bytes):
        with suppress(OSError):  # a reader without write access still gets the list
            # The rows last: they certify the page, even if this process is killed in between.
            page = index_page(rows, place.name).encode()
            index = _Index(page_bytes=len(page), rows=tuple(rows))
            with own_stage(store, "reports") as stage:
                put_same(store, INDEX_PAGE, page, stage)
                put_same(store, INDEX_ROWS, index.model_dump_json().encode(), stage)
    return rows


def _read_index(store: Store) -> _Index:
    try:
        return _Index.model_validate_json(store.read(INDEX_ROWS).to_pybytes())
    except (OSError, ValidationError):
        return _Index(page_bytes=0, rows=())


def _row(store: Store, name: str) -> KeptReport | None:
    """Make the index row of a report's folder; None if the report is unfinished or unreadable."""
    try:
        report = from_json(store.read(f"{REPORTS}/{name}/{JSON_FILE}").to_pybytes(), _READ)
        return _row_of(report, store.written(f"{REPORTS}/{name}")[JSON_FILE])
    except (OSError, ValueError, KeyError):
        return None


def _row_of(report: Report, kept_ns: int) -> KeptReport:
    sections = (s for s in report.sections if isinstance(s, FindingsSection))
    found = next(sections, None)
    return KeptReport(
        id=report.id,
        kept_ns=kept_ns,
        periods=periods_text((sample.text, sample.where) for sample in report.samples),
        method=report.methods[0].name,
        outcome=report.verdict.outcome,
        verdict=report.verdict.text,
        headline=report.headline.sentence,
        mean=_mean_words(report),
        finding=found.findings[0].title if found is not None and found.findings else "",
        findings=0 if found is None else found.findings_total,
        said=report.headline.sentence
        if found is not None or len(report.methods) > 1
        else report.verdict.text,
    )


def _mean_words(report: Report) -> str:
    """Change of the mean as text: `+25 %`, or `not significant (+2 %)`."""
    change = report.headline.change
    if change is None or change.delta_share is None:
        return ""
    share = percent(change.delta_share, sign=True)
    accounts = (a for s in report.sections if isinstance(s, AccountSection) for a in s.accounts)
    mean = next((account for account in accounts if account.measure == "mean"), None)
    if mean is None:
        return f"{share} (not tested)"
    return share if mean.changed else f"not significant ({share})"


def periods_text(samples: Iterable[tuple[str, str]]) -> str:
    """Compared periods as text. samples: (period, filter) of each sample."""
    return " → ".join(f"{text} where {where}" if where else text for text, where in samples)


def kept_at(row: KeptReport) -> str:
    """Time at which the report was written, UTC, to the minute: `2026-11-20 09:05`."""
    return f"{datetime.fromtimestamp(row.kept_ns // 10**9, UTC):%Y-%m-%d %H:%M}"


_OUTCOMES: Final = {"shown": "overview", "mutations": "changed (paper)", "no-mutation": "unchanged (paper)"}
"""Outcome -> text, for outcomes whose names would be ambiguous beside the outcomes of other methods."""


def outcome_words(row: KeptReport) -> str:
    """Outcome of a report in words, for example `not explained`."""
    return _OUTCOMES.get(row.outcome, row.outcome.replace("-", " "))


_COLUMNS: Final = (
    Column("", "Kept (UTC)", "text", lambda row: Styled(kept_at(row), href=f"{row.id}/{HTML_FILE}")),
    Column("periods", "Periods"),
    Column("", "Verdict", "text", outcome_words),
    Column("mean", "Mean"),
    Column("", "First finding, or what was measured", "text", lambda row: row.finding or row.said),
    Column("findings", "Findings", "count"),
    Column("method", "Method"),
)


def index_page(rows: Sequence[KeptReport], lake: str) -> str:
    """Render the page that lists reports: no script, no request, links to the reports beside it."""
    table = Grid("Reports", _COLUMNS, rows[:LISTED], len(rows))
    note = table.shown_of or "newest first"
    blocks = (Part(f"Reports of {lake}", (table if rows else Text("None."),), note=note),)
    style = source(STYLE)
    return template("analyze.report", "templates/index.html.jinja").render(
        lake=lake, style=Markup(style), style_hash=csp_hash(style), blocks=blocks_html(blocks, "", 1)
    )
