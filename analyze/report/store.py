"""Reports of a lake: `reports/<id>/`, either complete and durable, or absent.

Files are written one by one, each durably, `report.json` last; before a file is replaced, `report.json` is
removed. Readers skip a report without it. So after a power cut the report is complete or absent; a report
damaged in another way is repaired when it is made again.

The id is a hash of the results: two processes may write one report with different pages at the same time.
Each writes its checksums first, under a name of its own (`stitch.lake.sums`), so that every file matches one
of the lists.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from analyze.report.gate import Outcome
from schemas.errors import lake_error
from schemas.report.report import to_json
from stitch.lake.layout import REPORT_END, REPORTS, STAGE, own_stage
from stitch.lake.place import LakePlace
from stitch.lake.store import Store
from stitch.lake.sums import sums_name, write_sums

JSON_FILE: Final = REPORT_END
HTML_FILE: Final = "report.html"
_GROUP_ROWS: Final = 2**14
"""Number of rows per Parquet row group: a finding has up to 50,000 affected requests, a report many
findings.
"""


def keep_report(place: LakePlace, outcome: Outcome, page: str) -> str:
    """Write tables, JSON and `page` (from `render_html`) to reports/<id> of a lake; return the page's
    address.

    The id is a hash of the content: files with equal content are left alone, others replaced. Raises
    LakeError if the lake cannot be written.
    """
    store, folder = place.store, f"{REPORTS}/{outcome.report.id}"
    at = str(place.root / folder) if place.copies is None else f"{place.name}/{folder}"
    try:
        files, there = _files(outcome, page), {*store.names(folder)}
        missing = [
            name for name in files if name not in there or not _holds(store, f"{folder}/{name}", files[name])
        ]
        if missing:
            store.remove(f"{folder}/{JSON_FILE}")
            with own_stage(store, "report") as stage:
                for name in dict.fromkeys([*missing, JSON_FILE]):
                    put_same(store, f"{folder}/{name}", files[name], stage)
    except OSError as error:
        raise lake_error(
            f"Report '{at}' cannot be written: {error.strerror or error}.",
            error,
            remedy="Check space and permissions, or use --no-save, and --json and --html to write it "
            "elsewhere.",
        ) from error
    return f"{at}/{HTML_FILE}"


def put_same(store: Store, name: str, data: bytes, stage: str = STAGE) -> None:
    """Write a file, unless it exists with the same content.

    stage: folder in which the file is first written. Raises OSError.
    """
    try:
        store.put_if_absent(name, data, stage)
    except FileExistsError:
        if not _holds(store, name, data):
            store.replace(name, data, stage)


def _holds(store: Store, name: str, data: bytes) -> bool:
    """True if a file exists with content `data`."""
    try:
        return bool(store.read(name).equals(pa.py_buffer(data)))
    except FileNotFoundError:
        return False


def write_report_table(table: pa.Table, to: Path | pa.NativeFile) -> None:
    """Write a table of a report as Parquet, in row groups that can be read separately. Raises OSError."""
    pq.write_table(table, to, compression="zstd", row_group_size=_GROUP_ROWS, write_page_checksum=True)


def _table_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    write_report_table(table, sink)
    return bytes(sink.getvalue())


def _files(outcome: Outcome, page: str) -> dict[str, bytes]:
    """File name -> content of a report's files, in order of writing: checksums first, JSON last."""
    files = {f"{name}.parquet": _table_bytes(table) for name, table in outcome.tables.items()}
    files[HTML_FILE] = page.encode()
    files[JSON_FILE] = to_json(outcome.report).encode()
    sums = write_sums(files)
    return {sums_name(sums): sums, **files}
