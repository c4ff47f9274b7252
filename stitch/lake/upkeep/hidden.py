"""Determine which files of a lake upkeep has hidden from readers: files of retired windows, replaced files,
handled late events.

Upkeep commits to a separate lane, so it never conflicts with other lanes; readers and writers use this module
to find out whether it hides a file of another lane. Hidden files are deleted later (`upkeep_lane`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8
from schemas.commits import Publish, Standing, Upkeep
from schemas.windows import Window
from stitch.lake.chain import Listing, read_tail
from stitch.lake.layout import origin
from stitch.lake.store import Store

UPKEEP_LANE: Final = 2**31 - 1
"""Number of the upkeep lane, larger than that of any partition's lane."""
_BEFORE: Final = int(np.iinfo(np.int64).min)
"""Time before the start of every window, ns."""


@dataclass(frozen=True, slots=True, eq=False)
class Hidden:
    """Rules that say, by window, lane and commit, which files of a lake upkeep has hidden."""

    retired_to_ns: int | None
    """Windows that end at or before this time, ns since the epoch, are retired; None: no window is."""
    length_ns: int
    """Length of the lake's windows, ns."""
    starts_ns: I8
    """[windows] starts of the rewritten windows, ns since the epoch, ascending."""
    through: I8
    """[windows × lanes] number of the lane's last commit whose files the window's current generation
    replaces; 0: none."""
    lanes: I8
    """[lanes] lane numbers, ascending: columns of `through`."""
    seqs: I8
    """[windows] number of the upkeep commit that wrote the window's current generation."""
    sides: Mapping[str, Mapping[int, int]]
    """Name of a table without windows -> lane number -> number of the last commit whose files in that table
    are hidden."""

    @property
    def live_seqs(self) -> I8:
        """Numbers of the upkeep commits that wrote the current generation of any window that is not retired,
        distinct, ascending."""
        inside = self.starts_ns + self.length_ns > (
            _BEFORE if self.retired_to_ns is None else self.retired_to_ns
        )
        return np.unique(self.seqs[inside])

    def mask(self, window_ns: I8, lane: I8, seq: I8) -> B1:
        """[files] True if the file is hidden. O(files log windows).

        window_ns: [files] start of the file's window, ns. lane, seq: [files] lane number and commit number.
        """
        found = np.zeros(len(window_ns), dtype=np.bool_)
        if self.retired_to_ns is not None:
            found |= window_ns + self.length_ns <= self.retired_to_ns
        if len(self.starts_ns):
            place = np.minimum(np.searchsorted(self.starts_ns, window_ns), len(self.starts_ns) - 1)
            column = np.minimum(np.searchsorted(self.lanes, lane), len(self.lanes) - 1)
            anew = (self.starts_ns[place] == window_ns) & (self.lanes[column] == lane)
            found |= anew & (seq <= self.through[place, column])
        return found

    def is_gone(self, table: str, lane: int, seq: int) -> bool:
        """True if upkeep hides a file of a table without windows (late events, repaired events, dead
        letters). table: the table's name; lane, seq: lane number and number of the commit that wrote the
        file."""
        return seq <= self.sides.get(table, {}).get(lane, 0)

    def visible(self, listing: pa.Table) -> pa.Table:
        """Rows of `listing` (columns as in `Listing.table`) whose file is not hidden."""
        if self.retired_to_ns is None and not len(self.starts_ns) and not self.sides:
            return listing
        in_window = pc.is_valid(listing["window_ns"]).to_numpy()
        lane = listing["lane"].cast(pa.int64()).to_numpy()
        seq = listing["seq"].to_numpy()
        hidden = in_window & self.mask(pc.fill_null(listing["window_ns"], 0).to_numpy(), lane, seq)
        table = listing["table"].cast(pa.string())
        for name, through in self.sides.items():
            own = ~in_window & pc.equal(table, name).to_numpy()
            for number, last in through.items():
                hidden |= own & (lane == number) & (seq <= last)
        return listing.filter(pa.array(~hidden))

    def hides(self, item: Publish) -> bool:
        """True if the committed file `item` is hidden, so that it may already be deleted."""
        parts = origin(item.final.rpartition("/")[2])
        if parts is None:
            return False
        if item.window is None:
            return self.is_gone(item.table, parts[0], parts[1])
        start = Window.from_name(item.window, self.length_ns).start_ns
        return bool(self.mask(*(np.array([value]) for value in (start, parts[0], parts[1])))[0])


def upkeep_of(standing: Standing) -> Upkeep:
    """State of upkeep in `standing`, the state of the upkeep lane; an empty state if it has none."""
    return standing.upkeep or Upkeep()


def hidden_by(
    upkeep: Upkeep,
    listing: pa.Table,
    length_ns: int,
    *,
    until_ns: int | None = None,
    without: Set[int] = frozenset(),
) -> Hidden:
    """Derive the rules for hidden files from `upkeep`, the state of upkeep after a commit.

    listing: files of the upkeep lane (rows of `Listing.table`). until_ns: consider only files hidden at or
    before this time. without: numbers of the lane's commits to ignore.
    """
    retired = [at.to_ns for at in upkeep.retired if until_ns is None or at.at_ns <= until_ns]
    generations = [at for at in upkeep.generations if until_ns is None or at.at_ns <= until_ns]
    generations = [at for at in generations if at.seq not in without]
    replacing = _replacing(
        upkeep, [at.seq for at in generations], listing["seq"].to_numpy(), until_ns, without
    )
    listing = listing.filter(pc.and_(pa.array(replacing), pc.is_valid(listing["window_ns"])))
    emptied = [
        (Window.from_name(name, length_ns).start_ns, at.seq) for at in generations for name in at.emptied
    ]
    of_build = np.array([seq for _, seq in upkeep.emptied], dtype=np.int64)
    counts = _replacing(upkeep, [], of_build, until_ns, without)
    emptied += [at for at, told in zip(upkeep.emptied, counts.tolist(), strict=True) if told]
    of_window = [listing["window_ns"].to_numpy(), np.array([start for start, _ in emptied], dtype=np.int64)]
    of_seq = [listing["seq"].to_numpy(), np.array([seq for _, seq in emptied], dtype=np.int64)]
    starts, code = np.unique(np.concatenate(of_window), return_inverse=True)
    latest = np.zeros(len(starts), dtype=np.int64)
    np.maximum.at(latest, code, np.concatenate(of_seq))
    sides = {
        at.table: dict(at.through)  # ascending: the last holds
        for at in upkeep.replaced
        if (until_ns is None or at.at_ns <= until_ns) and at.seq not in without
    }
    lanes = np.unique([UPKEEP_LANE, *(lane for at in generations for lane, _ in at.through)])
    of_generation = np.zeros((len(generations), len(lanes)), dtype=np.int64)
    for row, at in enumerate(generations):
        own = np.array(at.through, dtype=np.int64).reshape(-1, 2)
        of_generation[row, np.searchsorted(lanes, own[:, 0])] = own[:, 1]
    seqs = np.array([at.seq for at in generations], dtype=np.int64)
    # A window that was built replaces what the lane published there before.
    through = np.where(lanes == UPKEEP_LANE, latest[:, None] - 1, 0)
    if len(seqs):
        place = np.minimum(np.searchsorted(seqs, latest), len(seqs) - 1)
        of_one = seqs[place] == latest
        through[of_one] = of_generation[place[of_one]]
    return Hidden(
        retired_to_ns=max(retired, default=None),
        length_ns=length_ns,
        starts_ns=starts,
        through=through,
        lanes=lanes,
        seqs=latest,
        sides=sides,
    )


def _replacing(
    upkeep: Upkeep, generations: list[int], seq: I8, until_ns: int | None, without: Set[int]
) -> B1:
    """bool[commits]: True for upkeep commits whose files replace the earlier files of their windows: commits
    that rewrote windows (their numbers are in `generations`), and builds recorded in `upkeep.built`.

    seq: int64[commits] numbers of the upkeep commits to test. until_ns: ignore builds committed after this
    time, ns since the epoch; None: ignore none. without: numbers of commits for which the result is False.
    """
    found: B1 = np.isin(seq, generations)
    for at in upkeep.built:
        if until_ns is None or at.at_ns <= until_ns:
            found |= (seq >= at.first) & (seq <= at.last)
    return found & ~np.isin(seq, [*without])


def commits_of(items: Iterable[Publish]) -> set[int]:
    """Numbers of the commits that published the files `items`, which are all of one lane."""
    origins = [origin(item.final.rpartition("/")[2]) for item in items]
    return {seq for _, seq, _ in (found for found in origins if found is not None)}


def read_hidden(
    store: Store, length_ns: int, *, durable: bool = False, until_ns: int | None = None
) -> Hidden:
    """Read the upkeep lane, and derive the rules for hidden files. Raises LakeError.

    durable: ignore the last commit, whose published files a crash of the machine might still undo. until_ns:
    consider only files hidden at or before this time.
    """
    tail = read_tail(store, UPKEEP_LANE)
    without = commits_of(tail.last_files) if durable else set()
    return hidden_by(
        upkeep_of(tail.standing), Listing(tail.parts()).table, length_ns, until_ns=until_ns, without=without
    )
