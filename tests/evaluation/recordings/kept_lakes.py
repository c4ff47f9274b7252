"""Lakes of the recordings, imported once and kept between runs for as long as the importer is the same."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

from evaluation.recordings.labelled import Recording
from evaluation.store import fingerprint
from oracles.quiet_import import Quiet

from schemas.windows import NS_PER_MINUTE
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings

IMPORTER = ("schemas", "ingest", "stitch")
"""Folders whose sources a lake depends on."""
DEFAULT_CACHE = ".cache/recordings"


def cache_folder(root: Path) -> Path:
    """Where lakes are kept: the folder that REAL_CACHE names, else `.cache/recordings` in the checkout."""
    return Path(os.environ.get("REAL_CACHE") or root / DEFAULT_CACHE)


def lake_of(recording: Recording, root: Path) -> Path:
    """The recording's lake with windows of a minute, made where importer or file are other ones."""
    kept = cache_folder(root) / "lakes"
    file = recording.file.stat()
    lake = kept / f"{recording.name}-{fingerprint(root, IMPORTER)}-{file.st_size:x}-{file.st_mtime_ns:x}"
    if lake.is_dir():
        return lake
    of_this = f"{recording.name}-{'[0-9a-f]' * 16}-*"  # the name of another may begin like it
    for older in {*kept.glob(of_this)} - {lake}:  # another process may have made it just now
        shutil.rmtree(older, ignore_errors=True)  # or be removing the same
    part = kept / f".{recording.name}-{os.getpid()}"
    import_into(
        part,
        [str(recording.file)],
        ImportSettings(window_length_ns=NS_PER_MINUTE),
        owner=f"evaluation-{os.getpid()}",
        created_by="evaluation",
        stdin=io.BytesIO(),
        progress=Quiet(),
    )
    try:
        part.rename(lake)
    except OSError:  # another process was first
        shutil.rmtree(part)
        if not lake.is_dir():
            raise
    return lake
