"""Reports on disk: `reports/<id>/` of a lake, whole or not there."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from analyze.compare import Outcome
from analyze.report.html import render_html
from schemas.errors import LakeError
from schemas.report import to_json

JSON_FILE, HTML_FILE = "report.json", "report.html"


def write_report(lake: Path, outcome: Outcome) -> Path:
    """Write tables, JSON and page under `lake`/reports/<id> and return that folder.

    The folder is named after the content, so one that is there already is the same report and is kept. It is
    made beside its place and renamed into it: a reader never sees half a report. Raises LakeError where the
    folder cannot be written.
    """
    reports = lake / "reports"
    final = reports / outcome.comparison.id
    if final.exists():
        return final
    try:
        reports.mkdir(exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=".staged-", dir=reports))
    except OSError as error:
        raise LakeError(
            f"No report can be written to '{reports}': {error.strerror}.",
            remedy="Use --json and --html to write it elsewhere.",
        ) from error
    try:
        folder = staged / final.name  # one level deeper than readers look
        folder.mkdir()
        for name, table in outcome.tables.items():
            pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        (folder / JSON_FILE).write_text(to_json(outcome.comparison), encoding="utf-8")
        (folder / HTML_FILE).write_text(render_html(outcome.comparison), encoding="utf-8")
        folder.rename(final)
    except OSError as error:
        if final.exists():  # another process finished the same report first
            return final
        raise LakeError(
            f"Report '{final}' cannot be written: {error.strerror}.",
            remedy="Check space and permissions, or use --json and --html to write it elsewhere.",
        ) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return final
