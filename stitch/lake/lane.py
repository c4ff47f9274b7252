"""Open a lane for writing. A lane is the unit of ordering, ownership and commits: one writer at a time makes
any number of commits.

Opening finishes the last commit, verifies the chain, fences off other writers, and sweeps the stage folders.
Every step may be interrupted; the next process that opens the lane then repeats it as a whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from schemas.commits import CommitBody, CommitRecord, InputFile, Publish, Standing
from schemas.errors import LakeError
from stitch.lake.chain import (
    CommitTakenError,
    Listing,
    Tail,
    is_due,
    last_number,
    put_record,
    read_inputs,
    read_tail,
    refuse_taken,
    sweep_checkpoints,
    tail_after,
    taken,
    unknown_commit,
    verify_window_length,
    write_checkpoint,
)
from stitch.lake.flow_counts import flags_of
from stitch.lake.layout import (
    SIDE_TABLES,
    LakeInfo,
    lane_folder,
    most_looked_at,
    numbered_files,
    stage_folder,
    stage_lane_folder,
    staged_seq,
)
from stitch.lake.staging import Staging
from stitch.lake.store import Move, Store, UncertainError, map_concurrently
from stitch.lake.upkeep.hidden import read_hidden

FILE_LANE: Final = 0
"""Number of the lane for everything imported from files."""
MAX_FENCE_ATTEMPTS: Final = 8
"""Maximum number of attempts to fence off the lane's previous writer: an attempt fails only if another writer
committed meanwhile."""


class Lane:
    """Lane of a lake, open for writing.

    On a disk the caller must hold `exclusive_lock`; in a bucket there is no lock, and only put-if-absent
    excludes other writers. Raises LakeError if files contradict the chain, CommitTakenError (a LakeError) if
    another writer committed, OSError.
    """

    def __init__(
        self,
        store: Store,
        info: LakeInfo,
        *,
        owner: str,
        created_by: str,
        lane: int = FILE_LANE,
        fence: bool = False,
    ) -> None:
        """fence: True to begin with a commit that takes the lane over, after which its previous owner cannot
        commit."""
        self.lane = lane
        self._fence = fence
        self._store = store
        self._info = info
        self._owner = owner
        self._created_by = created_by
        self._unpublished: tuple[Publish, ...] = ()
        """Files that this writer has committed but may not have published yet."""
        self._tail = self._open()

    @property
    def seq(self) -> int:
        """Number of the next commit."""
        return self._tail.head + 1

    @property
    def standing(self) -> Standing:
        """State of the lane after its last commit."""
        return self._tail.standing

    @property
    def events_open(self) -> int:
        """Number of events in the lane's segments that were still open after its last live commit."""
        live = (link.record for link in reversed(self._tail.records) if link.record.kind == "live")
        return next((record.counters.events_open for record in live), 0)

    @property
    def config(self) -> dict[str, Any]:
        """Configuration recorded by the last commit that has one; empty if none has."""
        said = (link.record.config for link in reversed(self._tail.records))
        return next(filter(None, said), {})

    def changed_settings(self, now: dict[str, Any]) -> str:
        """Text that lists the settings in `now` that differ from those with which the lane last stored
        requests; empty if none do."""
        before = self.config
        changed = [
            f"{room}.{key}: {value} until now, {now[room][key]} from now on"
            for room in ("decode", "stitch")
            for key, value in before.get(room, {}).items()
            if key in now[room] and now[room][key] != value
        ]
        return "; ".join(changed)

    def known_inputs(self) -> dict[str, InputFile]:
        """SHA-256 of a file's bytes -> last entry of that file, for every file that this lane imported."""
        return read_inputs(self._store, self._tail)

    @contextmanager
    def stage(self) -> Iterator[Staging]:
        """Context manager: staging for the files of the next commit; files that are not committed are removed
        at the end.

        Raises CommitTakenError if the block finds a file missing and another writer has taken the number.
        """
        staging = Staging(self._store, self.lane, self.seq)
        try:
            yield staging
        except UncertainError:  # it may be committed: the next process that opens the lane finds out
            raise
        except BaseException as error:
            if self.seq == staging.seq:
                staging.discard()
                if isinstance(error, FileNotFoundError):
                    refuse_taken(self._store, self.lane, self.seq)
            raise
        if self.seq == staging.seq:
            staging.discard()

    def commit(self, staging: Staging, body: CommitBody) -> CommitRecord:
        """Commit the staged files, all or none of them, and publish them.

        If publishing fails (OSError), the commit is nevertheless made: `seq` has advanced, and the next
        commit, or the next process that opens the lane, publishes the files. Raises CommitTakenError (nothing
        was committed), LakeError if the counters do not add up (a bug, detected before the commit), OSError.
        """
        if not body.counters.balanced:
            raise LakeError(
                f"The ledger of commit {self.seq} does not balance: {body.counters}.",
                remedy="Nothing was written; please report it.",
            )
        items = staging.items()
        self._refuse_names_in_use(items)
        if written := staging.names():
            try:
                self._store.persist(written)
            except FileNotFoundError:
                refuse_taken(self._store, self.lane, self.seq)
                raise
        made = None
        if is_due(self._store, self._tail):
            hidden = read_hidden(self._store, self._info.window_length_ns, durable=True)
            listing = Listing(self._tail.parts())
            files = listing.whole(hidden.visible(listing.table))
            made = write_checkpoint(
                self._store, self._tail, files, self.known_inputs().values(), staging.folder
            )
        counters = body.counters.model_copy(update={"quality": flags_of(items)})
        record = self._record(body).model_copy(
            update={
                "counters": counters,
                "publish": items,
                "carried": self._unpublished,
                "checkpoint": made and made[0],
            }
        )
        self._tail = tail_after(self._tail, put_record(self._store, record, staging.folder), made)
        self._unpublished = (*record.carried, *items)
        self._publish(self._unpublished)
        staging.clear()
        self._unpublished = ()
        if made is not None:
            sweep_checkpoints(self._store, self.lane)
        return record

    def _refuse_names_in_use(self, items: Sequence[Publish]) -> None:
        """Raise LakeError if a file with one of these final names exists already, from another writer or a
        lost commit."""
        sizes = self._store.sizes([item.final for item in items])
        found = next((item.final for item, size in zip(items, sizes, strict=True) if size is not None), None)
        if found is None:
            return
        head = self._tail.head
        if last_number(self._store, self.lane, head) > head:
            raise taken(self.lane, self.seq)
        raise unknown_commit(found, self.lane, head)

    def _record(self, body: CommitBody) -> CommitRecord:
        """Record of the next commit, still without its files."""
        fields = dict(body)
        if body.kind in ("import", "takeover") and self._tail.records:
            fields["standing"] = self._tail.standing.kept()
        if body.kind == "import":
            fields["standing"] = self._with_kept_events(fields["standing"], body.standing)
        return CommitRecord(
            **fields,
            lane=self.lane,
            seq=self.seq,
            previous=self._tail.sha256,
            owner=self._owner,
            created_by=self._created_by,
            window_length_ns=self._info.window_length_ns,
        )

    def _with_kept_events(self, before: Standing, body: Standing) -> Standing:
        """State of a lane of files after an import that logged its events in `body.segments`, if any: from
        the first of them on all are retained, or from `body.kept_from` on."""
        if not body.segments and not before.logs:
            return before
        known = [at for at in (body.kept_from, before.kept_from) if at is not None]
        first = max(known, default=self.seq)
        return before.model_copy(update={"segments": body.segments, "logs": True, "kept_from": first})

    def _publish(self, items: Iterable[Publish]) -> None:
        """Move committed files to their final names. A file that exists there already must equal the
        committed one."""
        found = tuple(items)
        there = self._store.sizes([item.final for item in found])
        taken_names = [item for item, size in zip(found, there, strict=True) if size is not None]
        map_concurrently(self._store, lambda item: verify_target(self._store, item), taken_names)
        try:
            self._store.publish([Move(item.stage, item.final) for item in found])
        except FileNotFoundError as error:
            kept = self._without_swept(found)
            if len(kept) < len(found):
                self._publish(kept)
                return
            raise LakeError(
                f"'{error.filename}' was committed, but is neither there nor on the stage.",
                remedy="Restore it from a backup; `flowdiff fsck` lists all that is missing.",
            ) from error

    def _without_swept(self, items: Iterable[Publish]) -> list[Publish]:
        """Copy of `items` without missing files that upkeep may have removed."""
        hidden = read_hidden(self._store, self._info.window_length_ns)
        return [
            item
            for item in items
            if not hidden.hides(item)
            or self._store.size(item.stage) is not None
            or self._store.size(item.final) is not None
        ]

    def _open(self) -> Tail:
        """Finish publishing the lane's last commit, and return the verified end of its chain.

        Staged files of a commit that was never made are removed only after a takeover commit took its number,
        so that a writer believed to be dead cannot commit files that are gone.
        """
        for _ in range(MAX_FENCE_ATTEMPTS):
            # The writer of the last record may have died before the sync; the record must not be lost again.
            self._store.settle(lane_folder(self.lane))
            self._tail = read_tail(self._store, self.lane)
            verify_window_length(self._tail, self._info.window_length_ns)
            self._publish(self._tail.last_files)
            if stray := self._file_of_no_commit():
                if read_tail(self._store, self.lane).head > self._tail.head:
                    continue
                raise unknown_commit(stray, self.lane, self._tail.head)
            head = self._tail.head
            if (self._fence and head) or any(seq > head for seq in self._staged().values()):
                try:
                    record = self._record(CommitBody(kind="takeover"))
                    fence = put_record(self._store, record, stage_folder(self.lane, record.seq))
                except CommitTakenError:
                    continue
                self._tail = tail_after(self._tail, fence)
            for folder, seq in self._staged().items():
                if seq <= self._tail.head:
                    self._store.remove(folder)
            return self._tail
        raise LakeError(
            f"Another writer keeps committing to lane {self.lane}.",
            remedy="Stop it, or wait until it is done.",
        )

    def _file_of_no_commit(self) -> str | None:
        """Name of a data file of this lane whose commit is not in the chain; None if there is none.

        The next commit would get the number of the lost commit, and so hide such a file. Every commit with a
        file in a window has a file of flows there, so only flows are searched, in the last windows.
        """
        windows = [f"flows/{name}" for name in self._store.names("flows")[-most_looked_at(self._store) :]]
        files = numbered_files(self._store, [*windows, *SIDE_TABLES])
        return next((name for name, lane, seq in files if lane == self.lane and seq > self._tail.head), None)

    def _staged(self) -> dict[str, int]:
        """Name of each stage folder of the lane -> number of the commit for which it was made."""
        above = stage_lane_folder(self.lane)
        staged = {f"{above}/{name}": staged_seq(name) for name in self._store.names(above)}
        return {folder: seq for folder, seq in staged.items() if seq is not None}


def verify_target(store: Store, item: Publish) -> None:
    """Raise LakeError if the file `item.final` exists and differs from the committed file.

    Upkeep may rename the file at any time; then it counts as missing.
    """
    size = store.size(item.final)
    if size is None:
        return
    try:
        is_ours = size == item.size and hashlib.sha256(store.read(item.final)).hexdigest() == item.sha256
    except FileNotFoundError:
        return
    if not is_ours:
        raise LakeError(
            f"'{item.final}' is there already, with other content than was committed.",
            remedy="Restore it from a backup; nothing was overwritten.",
        )
