"""Reports of a lake: `reports/<id>/`, whole and durable, or not there.

On disk a report is written beside its place, every file and then the folder is synced, the folder renamed
into place and its parent synced. So after a power cut there is the whole report or none; a report that was
damaged in another way (or by an earlier flowdiff, which did not sync) is replaced when it is made again. In a
bucket its files are put one by one, `report.json` last, and readers pass by a report that has none.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from analyze.report.gate import Outcome
from schemas.errors import LakeError, lake_error
from schemas.report.report import to_json
from stitch.lake.copies import REPORT_END
from stitch.lake.disk import LocalDisk
from stitch.lake.layout import REPORTS, STAGE
from stitch.lake.place import LakePlace
from stitch.lake.store import Store
from stitch.lake.sums import SUMS, write_sums

JSON_FILE: Final = REPORT_END
HTML_FILE: Final = "report.html"
_STAGED: Final = ".staged-"
"""Readers of `reports/` pass by what begins with a dot."""


def write_report(lake: Path, outcome: Outcome, page: str) -> Path:
    """Write tables, JSON and `page` (`render_html`) under `lake`/reports/<id> and return that folder.

    The folder is named after the content. One that is there already, readable and with this content, is kept;
    else it is replaced: for an instant between two renames it is not there at all. Only the owner may read
    it. Raises LakeError where it cannot be written.
    """
    reports = lake / REPORTS
    final = reports / outcome.report.id
    files = _files(outcome, page)
    if _is_whole(final, files):
        return final
    disk = LocalDisk(lake)
    try:
        made = not reports.exists()
        disk.make_folder(REPORTS)
        if made:
            disk.sync_folder("")
        staged = Path(tempfile.mkdtemp(prefix=_STAGED, dir=reports))
    except OSError as error:
        raise LakeError(
            f"No report can be written to '{reports}': {error.strerror}.",
            remedy="Use --json and --html to write it elsewhere.",
        ) from error
    try:
        folder = f"{REPORTS}/{staged.name}/{final.name}"  # one level deeper than readers look
        disk.make_folder(folder)
        for name, data in files.items():
            disk.create(f"{folder}/{name}", data)
            disk.sync_file(f"{folder}/{name}")
        disk.sync_folder(folder)
        if final.exists():
            final.rename(staged / "replaced")
        disk.rename(folder, f"{REPORTS}/{final.name}")
        disk.sync_folder(REPORTS)
    except OSError as error:
        if _is_whole(final, files):  # another process finished the same report first
            return final
        raise LakeError(
            f"Report '{final}' cannot be written: {error.strerror}.",
            remedy="Check space and permissions, or use --json and --html to write it elsewhere.",
        ) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return final


def keep_report(place: LakePlace, outcome: Outcome, page: str) -> str:
    """Write a report into a lake, a folder or a bucket; where its page is. Raises LakeError."""
    if place.copies is None:
        return str(write_report(place.root, outcome, page) / HTML_FILE)
    return put_report(place.store, outcome, page, place.name)


def put_report(store: Store, outcome: Outcome, page: str, lake: str) -> str:
    """Write a report into a bucket, file by file; where its page is. `lake` is the lake's name.

    Files of the same content are kept, others replaced. Raises LakeError where it cannot be written.
    """
    folder = f"{REPORTS}/{outcome.report.id}"
    try:
        for name, data in _files(outcome, page).items():
            put_same(store, f"{folder}/{name}", data)
    except OSError as error:
        raise lake_error(
            f"Report '{lake}/{folder}' cannot be written: {error.strerror or error}.",
            error,
            remedy="Use --no-save, and --json and --html to write it elsewhere.",
        ) from error
    return f"{lake}/{folder}/{HTML_FILE}"


def put_same(store: Store, name: str, data: bytes) -> None:
    """Put a file, in the place of one with other content. Raises OSError."""
    try:
        store.put_if_absent(name, data, STAGE)
    except FileExistsError:
        if not store.read(name).equals(pa.py_buffer(data)):
            store.replace(name, data, STAGE)


def _table_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue())


def _files(outcome: Outcome, page: str) -> dict[str, bytes]:
    """Content of every file of a report; its JSON comes last."""
    files = {f"{name}.parquet": _table_bytes(table) for name, table in outcome.tables.items()}
    files[HTML_FILE] = page.encode()
    text = to_json(outcome.report).encode()
    return {**files, SUMS: write_sums({**files, JSON_FILE: text}), JSON_FILE: text}


def _is_whole(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Whether every file is there with the content it should have."""
    try:
        return all((folder / name).read_bytes() == data for name, data in files.items())
    except OSError:
        return False
