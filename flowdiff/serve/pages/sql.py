"""Page *SQL*: one read-only statement over the views of a lake, answered as a table, CSV, JSON or Parquet.

The statement runs as in `flowdiff sql`: in a child process that can read only this lake, with limits of time
and memory. A link from another site fills in the form, but runs nothing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, BinaryIO, Final, cast

from analyze.report import wording
from analyze.report.blocks import Block, Blocks, Column, Details, Grid, Items, Part, Styled, Text, code, dim
from analyze.sql.catalog import VIEWS, relation
from flowdiff.cli.options import TableFormat
from flowdiff.cli.table_output import write_result
from flowdiff.serve.answer import Answer, Asked, Reply, SentFile, Whole
from flowdiff.serve.busy import BusyError
from flowdiff.serve.recipes import RECIPES
from flowdiff.serve.site import Site
from schemas.errors import FlowdiffError, QueryError
from stitch.heap import give_back

MOST_QUERY: Final = 20_000
"""Maximum number of characters in a statement."""
MOST_CELL: Final = 400
"""Maximum number of characters of a value on the page; files have the whole value."""
_IN_MEMORY: Final = 256 * 1024
"""Maximum size of a result file that is held in memory, bytes; a larger result is written to disk."""
_KINDS: Final = {
    TableFormat.CSV: "text/csv; charset=utf-8",
    TableFormat.JSON: "application/json",
    TableFormat.PARQUET: "application/vnd.apache.parquet",
}


def sql(site: Site, asked: Asked) -> Reply:
    """Show a statement and its result, or the form with queries to copy."""
    query, period = asked.one("q"), asked.one("period", "all") or "all"
    if len(query) > MOST_QUERY:
        raise QueryError(f"A query has at most {MOST_QUERY} characters.")
    if "@" in period:
        raise QueryError("Periods of other lakes are not served.")
    form = asked.chosen("format", ("", "html", *(str(one) for one in _KINDS)))
    runs = bool(query) and not asked.is_foreign
    if runs and form in {*_KINDS}:
        return _file(site, query, period, TableFormat(form))
    blocks: list[Block] = []
    if runs:
        blocks += _result(site, query, period)
    elif query:
        blocks.append(Text("This query came from another site: read it, then run it.", "strong"))
    blocks += _reference(site)
    above = site.shell.rendered("sql.html.jinja", query=query, period=period, is_foreign=asked.is_foreign)
    data = {"views": {name: relation(name).doc for name in VIEWS}, "recipes": [one.query for one in RECIPES]}
    return Answer("SQL", blocks, above=above, data=data)


def _result(site: Site, query: str, period: str) -> Blocks:
    began = time.monotonic()
    try:
        with site.queries.borrowed(site.known().token, period) as session:
            found = session.first_rows(query, (), site.settings.shown_rows)
    except FlowdiffError as error:
        return (Part("Result", (Text(error.message, "strong"), Text(error.remedy))),)
    columns = [
        Column("", name, "figure" if kind == "number" else "text", partial(_cell, at))
        for at, (name, kind) in enumerate(zip(found.names, found.kinds, strict=True))
    ]
    took = wording.duration((time.monotonic() - began) * 1e6)
    files = [
        Styled(f"as {one.upper()}", href=site.links.to("sql", q=query, period=period, format=one))
        for one in _KINDS
    ]
    note = (
        f"{wording.counted(found.total, 'row')} in {took}",
        *(part for file in files for part in (" · ", file)),
    )
    table = Grid("Result", columns, found.rows, found.total)
    return (Part("Result", (table if found.rows else Text("No row."),), note=note),)


def _cell(at: int, row: Sequence[str]) -> str:
    return wording.clip(row[at], MOST_CELL)


def _file(site: Site, query: str, period: str, form: TableFormat) -> Whole:
    """Complete result of a statement as a file, on disk until it is sent.

    Raises QueryError if the file is larger than `most_result_bytes`, BusyError if too many files are being
    sent.
    """
    if not site.sending.acquire(blocking=False):
        raise BusyError("Too many results are being sent.", remedy="Try again in a moment.")
    out = _Bounded(site.settings.most_result_bytes)
    try:
        with site.queries.borrowed(site.known().token, period) as session:
            write_result(session.stream(query), form, cast(BinaryIO, out))
        size = out.tell()
        out.seek(0)
    except BaseException:
        out.close()
        site.sending.release()
        raise
    finally:
        give_back()  # rows of a large result took several times its size
    name = "" if form is TableFormat.JSON else f"flowdiff.{form}"
    return Whole(b"", _KINDS[form], name=name, file=SentFile(cast(BinaryIO, out), size, site.sending.release))


class _Bounded(tempfile.SpooledTemporaryFile[bytes]):
    """Temporary file of limited size, in memory while it is small."""

    def __init__(self, most: int) -> None:
        super().__init__(_IN_MEMORY)
        self._most = most

    def write(self, data: Any) -> int:
        """Append bytes. Raises QueryError if the file becomes too large, or the disk is full."""
        try:
            written = super().write(data)
        except OSError as error:
            raise QueryError(f"The result cannot be written: {error.strerror or error}.") from error
        if self.tell() > self._most:
            raise QueryError(
                f"The result is larger than {self._most} bytes.", remedy="Add a LIMIT, or use `flowdiff sql`."
            )
        return written


def _reference(site: Site) -> Blocks:
    recipes = [Styled(one.title, href=site.links.to("sql", q=one.query)) for one in RECIPES]
    views = [
        Details(
            (code(name), dim(f" {relation(name).doc}")),
            (Grid(f"Columns of {name}", _COLUMNS, relation(name).columns),),
        )
        for name in VIEWS
    ]
    return (
        Part("Queries to begin with", (Items(recipes),)),
        Part("Views", views, note="times are UTC; the unit stands last in a column's name"),
    )


_COLUMNS: Final = (
    Column("", "Column", "text", lambda row: code(row.name)),
    Column("", "Type", "text", lambda row: row.type),
    Column("", "Meaning", "text", lambda row: row.doc),
)
