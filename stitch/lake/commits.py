"""The commit log of a lane: hash-chained JSON records, each linked once under its number.

A record that exists is the truth: its files are in the lake even where they still have to be moved there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import count
from typing import Any, Final, Literal

from pydantic import Field, ValidationError

from schemas.config import Config
from schemas.errors import LakeError
from stitch.lake.layout import COMMITS, commit_name, lane_folder, make_folders, stage_folder
from stitch.lake.store import Disk

RECORD_VERSION: Final = 1
NO_COMMIT: Final = "0" * 64
"""`previous` of the first record of a lane."""


class InputFile(Config):
    """One imported file; the content decides, the name is for people."""

    name: str
    sha256: str
    size: int
    format: str | None = None
    """Format that was asked for; None: told by content."""
    events: int | None = None
    """Events read from it; None: not noted, then there were some."""

    def is_settled(self, format_: str | None) -> bool:
        """Whether to import the file again, as `format_`, would be to repeat it.

        A file of which nothing came may be tried in another format.
        """
        return self.events != 0 or self.format == format_


class Publish(Config):
    """One file to be moved from the stage to where readers look."""

    table: str
    window: str | None
    """Name of the window; None for late and dead letters."""
    stage: str
    final: str
    sha256: str
    size: int
    rows: int


class Counters(Config):
    """The ledger of one commit (FAULTS I1). Events are rows of the event batches that codecs made."""

    events_read: int = 0
    events_published: int = 0
    """In flows of this commit, or dropped by the kernel with a quality flag (CAPPED)."""
    events_duplicate: int = 0
    """Exact copies inside this import, and events of requests that are in the lake already, unchanged."""
    events_rejected: int = 0
    """By the kernel: the same id with other content, or no time to go by. Kept as dead letters."""
    events_late: int = 0
    """Of requests that are in the lake already with other content: kept under `late/`."""
    flows: int = 0
    flows_duplicate: int = 0
    flows_late: int = 0
    rejects: dict[str, int] = Field(default_factory=dict)
    """Dead letters by reason: items that codecs refused (never events), and `events_rejected`."""
    oddities: dict[str, int] = Field(default_factory=dict)
    quality: dict[str, int] = Field(default_factory=dict)
    """Published flows by quality flag."""

    @property
    def balanced(self) -> bool:
        """Whether every event that was read is accounted for, once."""
        return self.events_read == (
            self.events_published + self.events_duplicate + self.events_rejected + self.events_late
        )


class CommitRecord(Config):
    """One commit of a lane."""

    version: int = RECORD_VERSION
    kind: Literal["import", "takeover"]
    lane: int
    seq: int
    previous: str
    """sha256 of the record before, as stored."""
    owner: str
    """Names the writing process; nothing is decided by it."""
    created_by: str
    window_length_ns: int
    inputs: tuple[InputFile, ...] = ()
    publish: tuple[Publish, ...] = ()
    counters: Counters = Counters()
    config: dict[str, Any] = Field(default_factory=dict)
    """Configuration of decoder and stitcher, for whoever asks later."""


class Chained(Config):
    """A record as read back, with its own hash."""

    record: CommitRecord
    sha256: str


class CommitTakenError(LakeError):
    """Another writer committed under the number this one wanted."""

    slug = "commit-taken"


def lanes(disk: Disk) -> list[int]:
    """Numbers of the lanes that have a commit folder, ascending."""
    found = [name.removeprefix("lane=") for name in disk.names(COMMITS) if name.startswith("lane=")]
    return sorted(int(name) for name in found if name.isdecimal())


def read_chain(disk: Disk, lane: int) -> list[Chained]:
    """Every commit of a lane in order, verified: no gap, each naming the hash of the one before.

    Raises LakeError at the first that does not. O(records).
    """
    chain: list[Chained] = []
    previous = NO_COMMIT
    for expected, name in enumerate(_record_names(disk, lane), start=1):
        full = f"{lane_folder(lane)}/{name}"
        if full != commit_name(lane, expected):
            raise _broken(full, f"number {expected} is missing")
        data = disk.read(full).to_pybytes()
        try:
            record = CommitRecord.model_validate_json(data)
        except ValidationError as error:
            raise _broken(full, f"it does not parse ({error.error_count()} errors)") from error
        if (record.version, record.lane, record.seq) != (RECORD_VERSION, lane, expected):
            raise _broken(full, "its version, lane or number is not that of its name")
        if record.previous != previous:
            raise _broken(full, "it does not follow the record before it")
        previous = hashlib.sha256(data).hexdigest()
        chain.append(Chained(record=record, sha256=previous))
    return chain


def _record_names(disk: Disk, lane: int) -> Iterator[str]:
    return (name for name in disk.names(lane_folder(lane)) if name.endswith(".json"))


def _broken(name: str, why: str) -> LakeError:
    return LakeError(
        f"The commit chain is broken at '{name}': {why}.", remedy="Restore control/commits from a backup."
    )


def taken(record: CommitRecord) -> CommitTakenError:
    """What to raise when another writer turns out to have gone on without us."""
    return CommitTakenError(
        f"Another writer took commit {record.seq} of lane {record.lane}.", remedy="Run the command again."
    )


def link_commit(disk: Disk, record: CommitRecord) -> Chained:
    """Step 3 of the protocol: write and sync a draft, link it under its number, sync the folder.

    Raises CommitTakenError where the number is taken: the caller's staged files are then garbage.
    """
    data = (record.model_dump_json(indent=1) + "\n").encode()
    folder = stage_folder(record.lane, record.seq)
    make_folders(disk, folder)
    make_folders(disk, lane_folder(record.lane))
    # A number that is free: a writer that died here left its draft behind.
    draft = next(name for n in count() if not disk.exists(name := f"{folder}/draft-{n}.json"))
    disk.create(draft, data)
    disk.sync_file(draft)
    try:
        disk.link(draft, commit_name(record.lane, record.seq))
    except (FileExistsError, FileNotFoundError) as error:  # taken, or taken and our draft swept
        raise taken(record) from error
    disk.sync_folder(lane_folder(record.lane))
    return Chained(record=record, sha256=hashlib.sha256(data).hexdigest())
