"""What a writer does before its first write: finish the last commit, fence off the dead, sweep the stage.

Every step may be interrupted and is done again, in whole, by whoever opens the lake next.
"""

from __future__ import annotations

from schemas.errors import LakeError
from stitch.lake.commits import (
    NO_COMMIT,
    Chained,
    CommitRecord,
    CommitTakenError,
    Publish,
    link_commit,
    read_chain,
)
from stitch.lake.layout import lane_folder, make_folders, stage_folder, stage_lane_folder
from stitch.lake.store import Disk

MAX_FENCE_ATTEMPTS = 8
"""Another writer can win the fence only by committing, so each failed attempt is its progress."""


def publish(disk: Disk, items: tuple[Publish, ...]) -> None:
    """Step 4: move staged files to where readers look. Does nothing twice, syncs always.

    Target folders are synced before the stage folder: no state has a file in neither.
    Raises LakeError where a file is in neither place.
    """
    targets = sorted({_folder(item.final) for item in items})
    for folder in targets:
        make_folders(disk, folder)
    for item in items:
        if disk.exists(item.final):
            continue
        try:
            disk.rename(item.stage, item.final)
        except FileNotFoundError as error:
            if not disk.exists(item.final):
                raise LakeError(
                    f"'{item.final}' was committed, but is neither there nor on the stage.",
                    remedy="Restore it from a backup; `flowdiff fsck` lists all that is missing.",
                ) from error
    for folder in targets:
        disk.sync_folder(folder)
    for folder in sorted({_folder(item.stage) for item in items}):
        if disk.exists(folder):
            disk.sync_folder(folder)


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def recover(disk: Disk, lane: int, owner: str, created_by: str, window_length_ns: int) -> list[Chained]:
    """Bring a lane to rest and return its verified chain, to whose end the caller may add.

    Only the last commit can be unpublished: nobody commits before the one before is published. Files on the
    stage of a commit that never came are removed only after a takeover commit took that number, so that a
    writer thought dead cannot commit what was swept. Raises LakeError.
    """
    for _ in range(MAX_FENCE_ATTEMPTS):
        make_folders(disk, lane_folder(lane))
        # Whoever linked the last record may have died before the sync; what it says must not be undone.
        disk.sync_folder(lane_folder(lane))
        chain = read_chain(disk, lane)
        if chain:
            publish(disk, chain[-1].record.publish)
        head = len(chain)
        if _staged(disk, lane, above=head):
            fence = next_record(chain, "takeover", lane, owner, created_by, window_length_ns)
            try:
                chain.append(link_commit(disk, fence))
            except CommitTakenError:
                continue
        for seq in _staged(disk, lane, above=0):
            if seq <= len(chain):
                disk.remove(stage_folder(lane, seq))
        return chain
    raise LakeError(
        f"Another writer keeps committing to lane {lane}.", remedy="Stop it, or wait until it is done."
    )


def next_record(
    chain: list[Chained], kind: str, lane: int, owner: str, created_by: str, window_length_ns: int
) -> CommitRecord:
    """An empty record that follows the chain."""
    return CommitRecord.model_validate(
        {
            "kind": kind,
            "lane": lane,
            "seq": len(chain) + 1,
            "previous": chain[-1].sha256 if chain else NO_COMMIT,
            "owner": owner,
            "created_by": created_by,
            "window_length_ns": window_length_ns,
        }
    )


def _staged(disk: Disk, lane: int, above: int) -> list[int]:
    """Numbers of the stage folders above `above`, ascending."""
    names = [name for name in disk.names(stage_lane_folder(lane)) if name.isdecimal()]
    return sorted(seq for seq in map(int, names) if seq > above)
