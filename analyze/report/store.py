"""Reports of a lake: `reports/<id>/`, whole and durable, or not there.

On disk a report is written beside its place, every file and then the folder is synced, the folder renamed
into place and its parent synced. So after a power cut there is the whole report or none; a report that was
damaged in another way (or by an earlier flowdiff, which did not sync) is replaced when it is made again. In a
bucket its files are put one by one, `report.json` last, and readers pass by a report that has none.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from analyze.report.gate import Outcome
from schemas.errors import LakeError, lake_error
from schemas.report.report import Report, from_json, to_json
from stitch.lake.copies import REPORT_END
from stitch.lake.layout import REPORTS, STAGE
from stitch.lake.place import LakePlace
from stitch.lake.store import Store
from stitch.lake.sums import SUMS, write_sums

JSON_FILE: Final = REPORT_END
HTML_FILE: Final = "report.html"
_STAGED: Final = ".staged-"
"""Readers of `reports/` pass by what begins with a dot."""
_OWNER_ONLY: Final = 0o700


def write_report(lake: Path, outcome: Outcome, page: str) -> Path:
    """Write tables, JSON and `page` (`render_html`) under `lake`/reports/<id> and return that folder.

    The folder is named after the content. One that is there already, readable and with this content, is kept;
    else it is replaced: for an instant between two renames it is not there at all. Only the owner may read
    it. Raises LakeError where it cannot be written.
    """
    reports = lake / "reports"
    final = reports / outcome.report.id
    files = _files(outcome, page)
    if _is_whole(final, files):
        return final
    try:
        made = not reports.exists()
        reports.mkdir(mode=_OWNER_ONLY, exist_ok=True)
        if made:
            _sync_folder(lake)
        staged = Path(tempfile.mkdtemp(prefix=_STAGED, dir=reports))
    except OSError as error:
        raise LakeError(
            f"No report can be written to '{reports}': {error.strerror}.",
            remedy="Use --json and --html to write it elsewhere.",
        ) from error
    try:
        folder = staged / final.name  # one level deeper than readers look
        folder.mkdir(mode=_OWNER_ONLY)
        _write_files(folder, files)
        _take_place(folder, final, staged / "replaced")
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


_SECTIONS: Final = '\n "sections": ['
"""How the last field of a report's JSON begins (`to_json`): what stands before it is the head."""
_MOST_OF_A_HEAD: Final = 1 << 18
"""Characters; a whole report may have many times as many, and a lake has one a day."""


def kept_heads(place: LakePlace) -> list[Report]:
    """The finished reports of a lake in a folder, without their sections, by id; of a bucket none.

    A report that cannot be read, or is of another version, is passed by.
    """
    if place.copies is not None:
        return []
    found = []
    for file in sorted((place.root / REPORTS).glob(f"[!.]*/{JSON_FILE}")):
        try:
            with file.open(encoding="utf-8") as text:
                head, marker, _ = text.read(_MOST_OF_A_HEAD).partition(_SECTIONS)
            if marker:
                found.append(from_json(f"{head}{_SECTIONS}]}}", ()))
        except (OSError, ValueError):
            continue
    return found


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


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        with _synced(folder / name) as out:
            out.write(data)
    _sync_folder(folder)


@contextmanager
def _synced(path: Path) -> Iterator[BinaryIO]:
    """A new file, durable at the end (its name is not)."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        yield out
        out.flush()
        os.fsync(out.fileno())


def _take_place(folder: Path, final: Path, replaced: Path) -> None:
    """Rename into place; what stands there goes to `replaced`."""
    if final.exists():
        final.rename(replaced)
    folder.rename(final)
    _sync_folder(final.parent)


def _sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_whole(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Whether every file is there with the content it should have."""
    try:
        return all((folder / name).read_bytes() == data for name, data in files.items())
    except OSError:
        return False
