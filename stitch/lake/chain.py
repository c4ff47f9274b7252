"""Chain the commits of a lane: records that carry their own hash and that of the one before.

A record is stored as `{"sha256": "…", "record": {…}}`: the hash is over the bytes of the inner object, so
that it can be checked without knowing what they mean.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from schemas.commits import NO_COMMIT, CommitRecord
from schemas.errors import LakeError
from stitch.lake.abreast import ahead
from stitch.lake.layout import COMMITS, SUFFIX, commit_name, lane_folder, record_file
from stitch.lake.store import Store

_HEAD: Final = b'{"sha256": "'
_BODY: Final = b'", "record": '
_TAIL: Final = b"}\n"
_HASH_LENGTH: Final = 64


@dataclass(frozen=True, slots=True)
class Chained:
    """A record as stored, with its own hash."""

    record: CommitRecord
    sha256: str


class CommitTakenError(LakeError):
    """Another writer committed under the number this one wanted."""

    slug = "commit-taken"


def lanes(store: Store) -> list[int]:
    """Numbers of the lanes that have a commit folder, ascending."""
    found = [name.removeprefix("lane=") for name in store.names(COMMITS) if name.startswith("lane=")]
    return sorted(int(name) for name in found if name.isdecimal())


def encode_record(record: CommitRecord) -> tuple[bytes, str]:
    """Bytes of a record, and its own hash."""
    body = record.model_dump_json(indent=1).encode()
    sha256 = hashlib.sha256(body).hexdigest()
    return _HEAD + sha256.encode() + _BODY + body + _TAIL, sha256


def read_record(store: Store, lane: int, seq: int) -> Chained:
    """One record, checked against its own hash and its name. Raises LakeError."""
    name = commit_name(lane, seq)
    try:
        data = store.read(name).to_pybytes()
    except FileNotFoundError as error:
        raise broken(name, "it is missing") from error
    start = len(_HEAD) + _HASH_LENGTH
    body = data[start + len(_BODY) : -len(_TAIL)]
    told = data[len(_HEAD) : start].decode("ascii", "replace")
    if (
        data[: len(_HEAD)] != _HEAD
        or data[start : start + len(_BODY)] != _BODY
        or data[-len(_TAIL) :] != _TAIL
        or hashlib.sha256(body).hexdigest() != told
    ):
        raise broken(name, "it is not what was written (its own hash)")
    try:
        record = CommitRecord.model_validate_json(body)
    except ValidationError as error:
        raise broken(name, f"it does not parse ({error.error_count()} errors)") from error
    if (record.lane, record.seq) != (lane, seq):
        raise broken(name, "its lane or number is not that of its name")
    return Chained(record=record, sha256=told)


def numbers(store: Store, lane: int, above: int) -> list[int]:
    """Numbers of the records above `above`, ascending. Raises LakeError at a gap."""
    found = [
        name for name in store.names(lane_folder(lane), after=record_file(above)) if name.endswith(SUFFIX)
    ]
    for expected, name in enumerate(found, start=above + 1):
        if name != record_file(expected):
            raise broken(f"{lane_folder(lane)}/{name}", f"number {expected} is missing")
    return list(range(above + 1, above + 1 + len(found)))


def read_records(store: Store, lane: int, seqs: Sequence[int]) -> Iterator[Chained]:
    """Records in the order of `seqs`, read ahead as far as the store likes. Raises as `read_record`."""
    return ahead(store, lambda seq: read_record(store, lane, seq), seqs)


def read_chain(store: Store, lane: int) -> Iterator[Chained]:
    """Every commit of a lane in order, verified: no gap, each naming the hash of the one before.

    Raises LakeError at the first that does not. O(records of the lane's life).
    """
    previous = NO_COMMIT
    for link in read_records(store, lane, numbers(store, lane, above=0)):
        verify_links([link], previous)
        previous = link.sha256
        yield link


def verify_links(chain: Sequence[Chained], previous: str) -> None:
    """Raises LakeError unless each record names the hash of the one before; the first names `previous`."""
    for link in chain:
        if link.record.previous != previous:
            name = commit_name(link.record.lane, link.record.seq)
            raise broken(name, "it does not follow the record before it")
        previous = link.sha256


def broken(name: str, why: str) -> LakeError:
    """What to raise where a chain is not whole."""
    return LakeError(
        f"The commit chain is broken at '{name}': {why}.", remedy="Restore control/commits from a backup."
    )


def put_record(store: Store, record: CommitRecord, stage: str) -> Chained:
    """Step 3 of the protocol, the commit: the record under its number, unless that is taken.

    `stage` is the writer's own folder, for drafts. Raises CommitTakenError: the caller's staged files are
    then garbage. OSError as `Store.put_if_absent`.
    """
    data, sha256 = encode_record(record)
    name = commit_name(record.lane, record.seq)
    try:
        store.put_if_absent(name, data, stage)
    except FileExistsError as error:
        # Ours, where a client repeated a put whose answer was lost; else another writer's.
        if store.read(name).to_pybytes() != data:
            raise taken(record.lane, record.seq) from error
        store.settle(lane_folder(record.lane))
    except FileNotFoundError as error:  # taken, and our draft swept
        raise taken(record.lane, record.seq) from error
    return Chained(record=record, sha256=sha256)


def of_no_commit(name: str, lane: int, head: int) -> LakeError:
    """What to raise where a data file is of a commit that its lane's chain, up to `head`, does not have."""
    return LakeError(
        f"'{name}' belongs to a commit that the chain does not have: lane {lane} ends at {head}.",
        remedy="Restore control/commits from a backup; `flowdiff fsck` lists all such files.",
    )


def taken(lane: int, seq: int) -> CommitTakenError:
    """What to raise when another writer turns out to have gone on without us."""
    return CommitTakenError(
        f"Another writer took commit {seq} of lane {lane}.", remedy="Run the command again."
    )
