"""Names inside a lake, and `flowdiff.json`, which says what the folder is.

Path parts are made from integers, a closed list of table names and formatted UTC only, never from what
a record says.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import ValidationError

from schemas.config import Config
from schemas.errors import LakeError
from schemas.lake import LAYOUT_VERSION
from schemas.windows import Window
from stitch.lake.store import Disk

LAKE_FILE: Final = "flowdiff.json"
STAGE: Final = "stage"
COMMITS: Final = "control/commits"

WindowTable = Literal["flows", "structures", "params"]
SideTable = Literal["late", "dead_letters"]
WINDOW_TABLES: Final[tuple[WindowTable, ...]] = ("flows", "structures", "params")
SIDE_TABLES: Final[tuple[SideTable, ...]] = ("late", "dead_letters")


class LakeInfo(Config):
    """Content of `flowdiff.json`: written once, when the lake is made."""

    layout_version: int
    window_length_ns: int
    created_by: str


def lane_folder(lane: int) -> str:
    """Where the commits of a lane lie."""
    return f"{COMMITS}/lane={lane:d}"


def commit_name(lane: int, seq: int) -> str:
    """Name of one commit record; twelve digits, so that names sort as numbers."""
    return f"{lane_folder(lane)}/{seq:012d}.json"


def stage_lane_folder(lane: int) -> str:
    """Where a lane keeps files not yet published."""
    return f"{STAGE}/lane={lane:d}"


def stage_folder(lane: int, seq: int) -> str:
    """Where the files of one coming commit are written."""
    return f"{stage_lane_folder(lane)}/{seq:012d}"


def file_name(lane: int, seq: int, part: int) -> str:
    """Last part of a data file's name: unique in the lake's whole life."""
    return f"{lane:d}-{seq:012d}-{part:05d}.parquet"


def window_folder(table: WindowTable, window: Window) -> str:
    """Folder of a table's files for one window."""
    return f"{table}/window={window.name}"


def read_info(disk: Disk) -> LakeInfo | None:
    """`flowdiff.json`, or None where there is no lake yet.

    Raises LakeError where the file is not ours or of another layout version.
    """
    if not disk.exists(LAKE_FILE):
        return None
    try:
        info = LakeInfo.model_validate_json(disk.read(LAKE_FILE).to_pybytes())
    except ValidationError as error:
        raise LakeError(
            f"{LAKE_FILE} is not what flowdiff writes ({error.error_count()} errors).",
            remedy="Restore it from a backup, or import into a new lake.",
        ) from error
    if info.layout_version != LAYOUT_VERSION:
        raise LakeError(
            f"The lake has layout version {info.layout_version}; this flowdiff reads {LAYOUT_VERSION}.",
            remedy="Use the flowdiff that wrote it, or import into a new lake.",
        )
    return info


def ensure_lake(disk: Disk, window_length_ns: int | None, default_ns: int, created_by: str) -> LakeInfo:
    """Make the lake where it is missing; refuse one of another window length.

    `window_length_ns` None takes what the lake has, `default_ns` for a new one. Raises LakeError.
    """
    info = read_info(disk)
    if info is None:
        info = LakeInfo(
            layout_version=LAYOUT_VERSION,
            window_length_ns=default_ns if window_length_ns is None else window_length_ns,
            created_by=created_by,
        )
        _refuse_foreign(disk)
        info = _write_info(disk, info)
    if window_length_ns is not None and window_length_ns != info.window_length_ns:
        raise LakeError(
            f"The lake has windows of {info.window_length_ns // 10**9} s, "
            f"not {window_length_ns // 10**9} s as asked.",
            remedy="Leave --window out, or import into a new lake.",
        )
    return info


def _refuse_foreign(disk: Disk) -> None:
    foreign = sorted({*disk.names("")} & {*WINDOW_TABLES, *SIDE_TABLES})
    if foreign:
        raise LakeError(
            f"There is no {LAKE_FILE}, yet the folder holds '{foreign[0]}'.",
            remedy="Give an empty folder, or restore the file.",
        )


def _write_info(disk: Disk, info: LakeInfo) -> LakeInfo:
    """Write, sync, then link: the file is there whole or not at all."""
    draft = f"{STAGE}/{LAKE_FILE}"
    make_folders(disk, STAGE)
    disk.remove(draft)
    disk.create(draft, (info.model_dump_json(indent=1) + "\n").encode())
    disk.sync_file(draft)
    try:
        disk.link(draft, LAKE_FILE)
    except FileExistsError:
        other = read_info(disk)
        if other is None:
            raise
        info = other
    disk.sync_folder("")
    disk.remove(draft)
    return info


def make_folders(disk: Disk, name: str) -> None:
    """Make a folder and those above it, and make their names durable.

    Folders that are there are synced again: whoever made them may have died before it did.
    """
    above = ""
    for part in name.split("/"):
        folder = f"{above}/{part}" if above else part
        disk.make_folder(folder)
        disk.sync_folder(above)
        above = folder
