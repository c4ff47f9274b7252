"""The lane of upkeep, open for writing: says what leaves the lake, then sweeps it once no reader is at it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from schemas.commits import (
    CommitBody,
    CommitRecord,
    Counters,
    Generation,
    Replaced,
    Retirement,
    Standing,
    Upkeep,
)
from stitch.lake.lane import Lane
from stitch.lake.layout import DATA, LakeInfo
from stitch.lake.manifest import LakeFile, Manifest
from stitch.lake.staging import Staging
from stitch.lake.store import Store
from stitch.lake.sweeping import set_aside, swept
from stitch.lake.upkeep import UPKEEP_LANE, read_hidden


class UpkeepLane:
    """See the module. Opening finishes what was committed before. Raises as Lane does."""

    def __init__(self, store: Store, info: LakeInfo, *, owner: str, created_by: str) -> None:
        self._store = store
        self._length_ns = info.window_length_ns
        self._lane = Lane(store, info, owner=owner, created_by=created_by, lane=UPKEEP_LANE)

    @property
    def seq(self) -> int:
        """Number of the coming commit."""
        return self._lane.seq

    @contextmanager
    def stage(self) -> Iterator[Staging]:
        """See Lane."""
        with self._lane.stage() as staging:
            yield staging

    def retire(
        self,
        retirement: Retirement | None,
        replaced: Sequence[Replaced],
        grace_ns: int,
        late_to_ns: int | None = None,
    ) -> CommitRecord:
        """Windows that end at `to_ns` or before leave the lake, and files of tables without windows.

        late_to_ns: so do late events of that time, with the next repair that cannot fold them in.
        What was said longer than the grace ago is summed up, as every sweep takes it together.
        """
        upkeep = self._said()
        for each in replaced:
            upkeep = _and_replaced(upkeep, each, grace_ns)
        if retirement is not None:
            upkeep = _and_retired(upkeep, retirement, grace_ns)
        told = [at for at in (upkeep.late_to_ns, late_to_ns) if at is not None]
        upkeep = upkeep.model_copy(update={"late_to_ns": max(told, default=None)})
        with self.stage() as staging:
            return self._commit(staging, CommitBody(kind="upkeep"), upkeep)

    def all_of(self, manifest: Manifest) -> tuple[tuple[int, int], ...]:
        """(lane, commit), ascending: all that a snapshot shows, and what this lane committed."""
        return tuple(sorted({**dict(manifest.heads), UPKEEP_LANE: self.seq - 1}.items()))

    def replace(self, staging: Staging, generation: Generation, flows: int) -> CommitRecord:
        """The staged files are a new generation of their windows. `flows` rows of that table are staged."""
        told = self._and_generation(self._said(), generation)
        return self._commit(staging, CommitBody(kind="upkeep", counters=Counters(flows=flows)), told)

    def repair(
        self,
        staging: Staging,
        body: CommitBody,
        generation: Generation | None,
        replaced: Replaced,
        grace_ns: int,
    ) -> CommitRecord:
        """The staged files are a new generation of their windows, and late events became part of it.

        `generation` None: no window changed. `body` has counters and the repair.
        """
        told = self._said()
        if generation is not None:
            told = self._and_generation(told, generation)
        return self._commit(staging, body, _and_replaced(told, replaced, grace_ns))

    def _and_generation(self, before: Upkeep, generation: Generation) -> Upkeep:
        hidden = read_hidden(self._store, self._length_ns)
        live = set(hidden.live_seqs.tolist())
        kept = tuple(at for at in before.generations if at.seq in live)
        return before.model_copy(update={"generations": (*kept, generation)})

    def set_aside(self, files: Iterable[LakeFile]) -> None:
        """Files that the last commit replaced, or settled. Raises OSError: the rest is for the next time."""
        set_aside(self._store, (file.name for file in files))

    def sweep(self, until_ns: int) -> int:
        """Remove files that were hidden at this time or before, and set aside what an interrupted run left in
        its place; returns how many names went.

        Raises OSError: the rest is for the next time.
        """
        left = swept(self._store, replace(read_hidden(self._store, self._length_ns), retired_to_ns=None))
        set_aside(self._store, (name for name in left if name.endswith(DATA)))
        names = swept(self._store, read_hidden(self._store, self._length_ns, until_ns=until_ns))
        for name in names:
            self._store.remove(name)
        return len(names)

    def _said(self) -> Upkeep:
        return self._lane.standing.upkeep or Upkeep()

    def _commit(self, staging: Staging, body: CommitBody, upkeep: Upkeep) -> CommitRecord:
        return self._lane.commit(staging, body.model_copy(update={"standing": Standing(upkeep=upkeep)}))


def _and_retired(before: Upkeep, retirement: Retirement, grace_ns: int) -> Upkeep:
    limit_ns = retirement.at_ns - grace_ns
    past = [at for at in before.retired if at.at_ns <= limit_ns]
    newer = [at for at in before.retired if at.at_ns > limit_ns]
    highest = max((at.to_ns for at in before.retired), default=retirement.to_ns)
    told = retirement.model_copy(update={"to_ns": max(retirement.to_ns, highest)})
    return before.model_copy(update={"retired": (*past[-1:], *newer, told)})


def _and_replaced(before: Upkeep, told: Replaced, grace_ns: int) -> Upkeep:
    """What was said of the table longer than the grace ago is summed up: the last says it all."""
    own = [at for at in before.replaced if at.table == told.table]
    past = [at for at in own if at.at_ns <= told.at_ns - grace_ns]
    through = dict(own[-1].through) if own else {}
    for lane, seq in told.through:
        through[lane] = max(seq, through.get(lane, 0))
    whole = told.model_copy(update={"through": tuple(sorted(through.items()))})
    kept = [at for at in before.replaced if at not in past[:-1]]
    return before.model_copy(update={"replaced": (*kept, whole)})
