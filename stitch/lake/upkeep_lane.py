"""The lane of upkeep, open for writing: says what leaves the lake, then sweeps it once no reader is at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from schemas.commits import CommitBody, CommitRecord, Counters, Generation, Retirement, Standing, Upkeep
from stitch.lake.lane import Lane
from stitch.lake.layout import LakeInfo
from stitch.lake.staging import Staging
from stitch.lake.store import Store
from stitch.lake.sweeping import swept
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

    def retire(self, retirement: Retirement, grace_ns: int) -> CommitRecord:
        """Windows that end at `to_ns` or before leave the lake.

        What was said longer than the grace ago is summed up, as every sweep takes it together.
        """
        before = self._said()
        limit_ns = retirement.at_ns - grace_ns
        past = [at for at in before.retired if at.at_ns <= limit_ns]
        newer = [at for at in before.retired if at.at_ns > limit_ns]
        highest = max((at.to_ns for at in before.retired), default=retirement.to_ns)
        told = retirement.model_copy(update={"to_ns": max(retirement.to_ns, highest)})
        upkeep = before.model_copy(update={"retired": (*past[-1:], *newer, told)})
        with self.stage() as staging:
            return self._commit(staging, upkeep, 0)

    def replace(self, staging: Staging, generation: Generation, flows: int) -> CommitRecord:
        """The staged files are a new generation of their windows. `flows` rows of that table are staged."""
        before = self._said()
        hidden = read_hidden(self._store, self._length_ns)
        live = set(hidden.live_seqs.tolist())
        kept = tuple(at for at in before.generations if at.seq in live)
        upkeep = before.model_copy(update={"generations": (*kept, generation)})
        return self._commit(staging, upkeep, flows)

    def sweep(self, until_ns: int) -> int:
        """Remove files that were hidden at this time or before; returns how many names went.

        Raises OSError: the rest is for the next time.
        """
        names = swept(self._store, read_hidden(self._store, self._length_ns, until_ns=until_ns))
        for name in names:
            self._store.remove(name)
        return len(names)

    def _said(self) -> Upkeep:
        return self._lane.standing.upkeep or Upkeep()

    def _commit(self, staging: Staging, upkeep: Upkeep, flows: int) -> CommitRecord:
        body = CommitBody(kind="upkeep", counters=Counters(flows=flows), standing=Standing(upkeep=upkeep))
        return self._lane.commit(staging, body)
