"""Reports of a lake: `reports/<id>/`, whole and durable, or not there.

Files are put one by one, each durably, `report.json` last; where something is replaced, it is removed first.
Readers pass by a report that has none. So after a power cut there is the whole report or none; one that was
damaged in another way is mended when it is made again.

The id is of what was found: two writers may make one report with different pages, at the same time. Each puts
its sums first, under a name of their own (`stitch.lake.sums`), so that every file is what one of them wrote.
"""

from __future__ import annotations

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


def keep_report(place: LakePlace, outcome: Outcome, page: str) -> str:
    """Write tables, JSON and `page` (`render_html`) under reports/<id> of a lake; where its page is.

    The folder is named after the content: files of the same content are kept, others replaced. Raises
    LakeError where it cannot be written.
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
    """Put a file, in the place of one with other content; `stage` is a folder for drafts. Raises OSError."""
    try:
        store.put_if_absent(name, data, stage)
    except FileExistsError:
        if not _holds(store, name, data):
            store.replace(name, data, stage)


def _holds(store: Store, name: str, data: bytes) -> bool:
    """Tell whether a file is there and has a content; another process may have removed it."""
    try:
        return bool(store.read(name).equals(pa.py_buffer(data)))
    except FileNotFoundError:
        return False


def _table_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue())


def _files(outcome: Outcome, page: str) -> dict[str, bytes]:
    """Content of every file of a report; its sums come first, its JSON last."""
    files = {f"{name}.parquet": _table_bytes(table) for name, table in outcome.tables.items()}
    files[HTML_FILE] = page.encode()
    files[JSON_FILE] = to_json(outcome.report).encode()
    sums = write_sums(files)
    return {sums_name(sums): sums, **files}
