"""Names of files inside a lake, and `flowdiff.json`, which describes the lake.

Parts of names are made only from integers, a fixed list of table names and formatted UTC times, never from
values in records.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal

from pydantic import ValidationError

from schemas.closed import Closed
from schemas.errors import LakeError
from schemas.lake import LAYOUT_VERSION
from schemas.windows import Window, checked_length_ns
from stitch.lake.store import DRAFTS, Store, map_concurrently

LAKE_FILE: Final = "flowdiff.json"
STAGE: Final = "stage"
COMMITS: Final = "control/commits"
CHECKPOINTS: Final = "control/checkpoints"
SEGMENTS: Final = "control/segments"
REPORTS: Final = "reports"
REPORT_INDEX: Final = ("index.html", "index.json")
"""Names of the two lists of all reports in `reports/`; they are written again if missing."""
REPORT_END: Final = "report.json"
"""Name of the file of a report that is written last: a report without it is incomplete."""
SUFFIX: Final = ".json"
"""Suffix of the names of commit records."""

WindowTable = Literal["flows", "structures", "params"]
SideTable = Literal["late", "repaired", "dead_letters"]
WINDOW_TABLES: Final[tuple[WindowTable, ...]] = ("flows", "structures", "params")
SIDE_TABLES: Final[tuple[SideTable, ...]] = ("late", "repaired", "dead_letters")
DATA: Final = ".parquet"
ASIDE: Final = ".replaced"
"""Suffix added to the name of a data file when a later generation replaces it, so that `*.parquet` no longer
matches."""
LOOKED_AT: Final = 2016
"""Number of latest windows that are searched for files of lost commits: a week of five-minute windows.
`flowdiff fsck` searches all windows."""
LOOKED_AT_IN_BUCKET: Final = 64
"""Number of latest windows that are searched for files of lost commits in a bucket, where each window costs a
request."""


_FILE: Final = re.compile(r"(\d+)-(\d{12})-(\d{5,})\.parquet")
_OWN_STAGE: Final = re.compile(r"[a-z]+-[0-9a-f]{16}")


class LakeInfo(Closed):
    """Content of `flowdiff.json`: written once, when the lake is created; an operator may add `trace_url`."""

    layout_version: int
    window_length_ns: int
    created_by: str
    trace_url: str = ""
    """Address of a request's trace in another tool, `{trace_id}` in place of its id; reports link to it."""


def lane_folder(lane: int) -> str:
    """Name of the folder of a lane's commit records."""
    return f"{COMMITS}/lane={lane:d}"


def record_file(seq: int) -> str:
    """Last part of the name of commit record `seq`; twelve digits, so that names sort like numbers."""
    return f"{seq:012d}{SUFFIX}"


def commit_name(lane: int, seq: int) -> str:
    """Name of a commit record."""
    return f"{lane_folder(lane)}/{record_file(seq)}"


def checkpoint_folder(lane: int) -> str:
    """Name of the folder of a lane's checkpoints."""
    return f"{CHECKPOINTS}/lane={lane:d}"


def stage_lane_folder(lane: int) -> str:
    """Name of the folder of a lane's stage folders, for files not published yet."""
    return f"{STAGE}/lane={lane:d}"


def stage_folder(lane: int, seq: int) -> str:
    """Make the name of a new stage folder, for the files of one attempt at a commit.

    Two writers may attempt the same commit number, and neither may touch the other's files; so the name is
    unique.
    """
    return f"{stage_lane_folder(lane)}/{seq:012d}-{secrets.token_hex(8)}"


@contextmanager
def own_stage(store: Store, what: str) -> Iterator[str]:
    """Context manager: stage folder for the draft of one file outside commits; removed at the end. Raises
    OSError."""
    stage = f"{STAGE}/{what}-{secrets.token_hex(8)}"
    try:
        yield stage
    finally:
        store.remove(stage)


def sweep_drafts(store: Store, until_ns: int) -> None:
    """Remove folders made by `own_stage` of writers that died, if their drafts were written at or before
    `until_ns`.

    Empty folders stay, as their age is unknown. Raises OSError.
    """
    for name in store.names(STAGE):
        written = store.written(f"{STAGE}/{name}/{DRAFTS}") if _OWN_STAGE.fullmatch(name) else {}
        if written and max(written.values()) <= until_ns:
            store.remove(f"{STAGE}/{name}")


def staged_seq(folder: str) -> int | None:
    """Number of the commit for which a stage folder (last part of its name) was made; None for any other
    name."""
    seq = folder.partition("-")[0]
    return int(seq) if seq.isdecimal() else None


def report_folders(names: Iterable[str]) -> list[str]:
    """Names of the folders of finished reports, given the names of everything in `reports/`."""
    return [name for name in names if not name.startswith(".") and name not in REPORT_INDEX]


def segment_folder(lane: int) -> str:
    """Name of the folder of a live lane's log segments."""
    return f"{SEGMENTS}/lane={lane:d}"


def segment_seq(file: str) -> int | None:
    """Number of the commit for which a log segment (last part of its name) was written; None for any other
    name."""
    seq, dash, _ = file.partition("-")
    return int(seq) if dash and seq.isdecimal() and file.endswith(".arrow") else None


def segment_part(file: str) -> int:
    """Number of a log segment (last part of its name) among those of its commit; 0 in names of earlier
    versions, which had one a commit.
    """
    parts = file.split("-")
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() else 0


def file_name(lane: int, seq: int, part: int) -> str:
    """Last part of a data file's name, `<lane>-<commit>-<part>.parquet`, which is never used twice in a
    lake."""
    return f"{lane:d}-{seq:012d}-{part:05d}.parquet"


def origin(file: str) -> tuple[int, int, int] | None:
    """(lane number, commit number, part number) from a data file's name (`file_name`); None for any other
    name."""
    match = _FILE.fullmatch(file)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def window_folder(table: WindowTable, window: Window) -> str:
    """Name of the folder of a table's files for one window."""
    return f"{table}/window={window.name}"


def read_info(store: Store, lake: str = "LAKE") -> LakeInfo | None:
    """Read `flowdiff.json`; None if there is no lake. lake: name of the lake for messages.

    Raises LakeError if the file is of another program or layout version.
    """
    if store.size(LAKE_FILE) is None:
        return None
    try:
        info = LakeInfo.model_validate_json(store.read(LAKE_FILE).to_pybytes())
    except ValidationError as error:
        raise LakeError(
            f"{LAKE_FILE} is not what flowdiff writes ({error.error_count()} errors).",
            remedy="Restore it from a backup, or import into a new lake.",
        ) from error
    if info.layout_version != LAYOUT_VERSION:
        raise LakeError(
            f"The lake '{lake}' has layout version {info.layout_version}; "
            f"this flowdiff reads {LAYOUT_VERSION}.",
            remedy="Use the flowdiff that wrote it, or import into a new lake.",
        )
    return info


def ensure_lake(
    store: Store,
    window_length_ns: int | None,
    default_ns: int,
    created_by: str,
    lake: str = "LAKE",
    *,
    option: str = "--window",
) -> LakeInfo:
    """Create the lake if it is missing; refuse an existing one with another window length.

    window_length_ns: None accepts the length of an existing lake, and means `default_ns` for a new one.
    option: command-line option of the window length, for messages. Raises LakeError, and ConfigError for a
    length that windows cannot have.
    """
    info = read_info(store, lake)
    if info is None:
        _refuse_foreign(store, lake)
        info = LakeInfo(
            layout_version=LAYOUT_VERSION,
            window_length_ns=checked_length_ns(default_ns if window_length_ns is None else window_length_ns),
            created_by=created_by,
        )
        try:
            store.put_if_absent(LAKE_FILE, encode_info(info), STAGE)
        except (FileExistsError, FileNotFoundError):  # made by another process, or our draft swept by it
            other = read_info(store, lake)
            if other is None:
                raise
            info = other
        store.remove(f"{STAGE}/{DRAFTS}")
    store.settle("")
    if window_length_ns is not None and window_length_ns != info.window_length_ns:
        raise LakeError(
            f"The lake has windows of {info.window_length_ns // 10**9} s, "
            f"not {window_length_ns // 10**9} s as asked.",
            remedy=f"Leave {option} out, or take a new lake.",
        )
    return info


def encode_info(info: LakeInfo) -> bytes:
    """Encode the content of the file `flowdiff.json`."""
    return (info.model_dump_json(indent=1, exclude_defaults=True) + "\n").encode()


def _refuse_foreign(store: Store, lake: str) -> None:
    """Raise LakeError for a lake whose `flowdiff.json` is missing, so that it is not mistaken for a new
    lake."""
    foreign = sorted({*store.names("")} & {*WINDOW_TABLES, *SIDE_TABLES})
    if store.names(COMMITS):
        foreign.append(COMMITS)
    if foreign and read_info(store, lake) is None:  # else another process made it just now
        raise LakeError(
            f"There is no {LAKE_FILE}, yet the folder holds '{foreign[0]}'.",
            remedy="Give an empty folder, or restore the file.",
        )


def numbered_files(store: Store, folders: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield (name, lane number, commit number) of each data file in the given folders."""
    for folder, names in zip(folders, map_concurrently(store, store.names, folders), strict=True):
        for name in names:
            if (parts := origin(name)) is not None:
                yield f"{folder}/{name}", parts[0], parts[1]


def most_looked_at(store: Store) -> int:
    """Number of latest windows in which readers and writers search for files of lost commits."""
    return LOOKED_AT if store.concurrency == 1 else LOOKED_AT_IN_BUCKET


def data_files(store: Store, tables: Iterable[str] = (*WINDOW_TABLES, *SIDE_TABLES)) -> Iterator[str]:
    """Yield the name of every data file in the folders of tables, committed or not. O(files)."""
    for folder in tables:
        yield from store.below(folder, lambda name: name.startswith("window="))
