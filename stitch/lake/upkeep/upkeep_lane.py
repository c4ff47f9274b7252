"""Commit to the upkeep lane: hide files by a commit, and delete them once no reader can still use them.

Only files hidden by published commits of this lane are touched, so a sweep may stop at any time, and may be
repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from schemas.commits import (
    Build,
    BuiltCommits,
    CommitBody,
    CommitRecord,
    Counters,
    Generation,
    Repair,
    Replaced,
    Retirement,
    Standing,
    Upkeep,
)
from schemas.windows import Window
from stitch.lake.chain import CommitTakenError
from stitch.lake.lane import Lane
from stitch.lake.layout import ASIDE, DATA, SIDE_TABLES, WINDOW_TABLES, LakeInfo, origin
from stitch.lake.manifest import LakeFile, Manifest
from stitch.lake.staging import Staging
from stitch.lake.stats_files import SPANS, STATS
from stitch.lake.store import Move, Store, map_concurrently
from stitch.lake.upkeep.hidden import UPKEEP_LANE, Hidden, read_hidden, upkeep_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UpkeepRun:
    """Parameters of one run of upkeep. On a disk the caller must hold `exclusive_lock`."""

    store: Store
    lake: str
    """Name of the lake in messages."""
    now_ns: int
    """Time of the run, ns since the epoch."""
    grace_ns: int
    """Time for which hidden files are kept, ns, for readers that opened the lake before."""
    owner: str
    """Unique name of the process, recorded in commits."""
    created_by: str
    """Program and version, for commits."""
    losses_borne: int = 8
    """Maximum number of consecutive attempts to commit that may fail because another writer, such as a live
    builder, was faster; one more raises CommitTakenError."""

    def retry(self, attempt: Callable[[], T]) -> T:
        """Call `attempt`, which plans and commits, until no other writer takes its commit number or deletes
        a file that it reads meanwhile. After `losses_borne` + 1 failures raises the last one."""
        for _ in range(self.losses_borne):
            try:
                return attempt()
            except (CommitTakenError, FileNotFoundError):
                continue
        return attempt()

    @property
    def sweep_ns(self) -> int:
        """Files hidden at or before this time, ns since the epoch, are deleted by this run."""
        return self.now_ns - self.grace_ns


@dataclass(frozen=True, slots=True)
class Built:
    """Windows that one commit builds from a log; their files are staged for this commit."""

    build: Build
    emptied: frozenset[int]
    """Starts, ns, of windows that had flows and have none now."""
    sealed_to_ns: int | None
    """Every window that ends at or before this time, ns since the epoch, is built; None: no window is."""
    at_ns: int
    """Time of the commit, ns, by the writer's clock."""
    built_to: tuple[tuple[int, int], ...] = ()
    """(lane number, commit number), ascending: value of `Upkeep.built_to` after the commit."""
    rebuilds_from_ns: int | None = None
    """Start, ns, of the first window that may still be rebuilt after the commit; None: no window may."""


class UpkeepLane:
    """The upkeep lane of one lake, open for writing. Opening finishes publishing its last commit. Raises the
    exceptions of `Lane`."""

    def __init__(self, run: UpkeepRun, info: LakeInfo) -> None:
        self._store = run.store
        self._grace_ns = run.grace_ns
        self._length_ns = info.window_length_ns
        self._lane = Lane(run.store, info, owner=run.owner, created_by=run.created_by, lane=UPKEEP_LANE)
        self._set_aside_to = self._swept_to = 0
        """Number of the last commit whose windows this process has searched for files to rename and to
        delete."""

    @property
    def seq(self) -> int:
        """Number of the next commit."""
        return self._lane.seq

    @property
    def upkeep(self) -> Upkeep:
        """State of upkeep after the last commit."""
        return upkeep_of(self._lane.standing)

    @contextmanager
    def stage(self) -> Iterator[Staging]:
        """Context manager: staging for the files of the next commit, as `Lane.stage`."""
        with self._lane.stage() as staging:
            yield staging

    def all_of(self, manifest: Manifest) -> tuple[tuple[int, int], ...]:
        """(lane number, commit number), ascending: the last commit of each lane in the snapshot `manifest`,
        and that of this lane."""
        return tuple(sorted({**dict(manifest.heads), UPKEEP_LANE: self.seq - 1}.items()))

    def commit(
        self,
        staging: Staging,
        *,
        counters: Counters = Counters(),  # noqa: B008 - frozen
        repair: Repair | None = None,
        generation: Generation | None = None,
        replaced: Iterable[Replaced] = (),
        retirement: Retirement | None = None,
        late_to_ns: int | None = None,
        built: Built | None = None,
    ) -> CommitRecord:
        """Commit the staged files, and hide the files that they replace or that are retired.

        generation: windows whose files the staged ones replace; replaced: files to hide of tables outside
        windows; retirement: windows to hide; late_to_ns: as `Upkeep.late_to_ns`; built: windows built from a
        log. Entries of the state older than the grace period are merged, as a sweep handles them together.
        """
        upkeep = upkeep_of(self._lane.standing)
        if generation is not None:
            upkeep = self._and_generation(upkeep, generation)
        for each in replaced:
            upkeep = _and_replaced(upkeep, each, self._grace_ns)
        if retirement is not None:
            upkeep = _and_retired(upkeep, retirement, self._grace_ns)
        if built is not None:
            upkeep = _and_built(upkeep, built, self.seq, self._grace_ns, self._length_ns, staging)
        ends = [at for at in (upkeep.late_to_ns, late_to_ns) if at is not None]
        upkeep = upkeep.model_copy(update={"late_to_ns": max(ends, default=None)})
        sealed_to_ns = self._lane.standing.sealed_to_ns if built is None else built.sealed_to_ns
        body = CommitBody(
            kind="upkeep" if built is None else "build",
            counters=counters,
            repair=repair,
            build=None if built is None else built.build,
            standing=Standing(upkeep=upkeep, sealed_to_ns=sealed_to_ns),
        )
        return self._lane.commit(staging, body)

    def _and_generation(self, before: Upkeep, generation: Generation) -> Upkeep:
        hidden = read_hidden(self._store, self._length_ns)
        live = set(hidden.live_seqs.tolist())
        kept = tuple(at for at in before.generations if at.seq in live)
        return before.model_copy(update={"generations": (*kept, generation)})

    def set_aside(self, files: Iterable[LakeFile]) -> None:
        """Rename files that the last commit hid, so that a search for `*.parquet` skips them. Raises OSError;
        the next sweep renames the rest."""
        _set_aside(self._store, (file.name for file in files))

    def sweep(self, until_ns: int) -> int:
        """Delete files hidden at or before `until_ns`, and rename hidden files that an interrupted run did
        not; returns the number deleted.

        Raises OSError; the next sweep does the rest.
        """
        hidden = replace(read_hidden(self._store, self._length_ns), retired_to_ns=None)
        left = swept(self._store, hidden, after=self._set_aside_to)
        _set_aside(self._store, (name for name in left if name.endswith(DATA)))
        self._set_aside_to = int(hidden.seqs.max(initial=self._set_aside_to))
        hidden = read_hidden(self._store, self._length_ns, until_ns=until_ns)
        names = swept(self._store, hidden, after=self._swept_to)
        for name in names:
            self._store.remove(name)
        self._swept_to = int(hidden.seqs.max(initial=self._swept_to))
        return len(names)


def _and_built(
    before: Upkeep, built: Built, seq: int, grace_ns: int, length_ns: int, staging: Staging
) -> Upkeep:
    """Upkeep state after build commit number `seq`; ranges older than the grace period are merged."""
    # Clocks of builders differ, and ranges stay ascending.
    at_ns = max([built.at_ns, *(at.at_ns for at in before.built)])
    limit_ns = at_ns - grace_ns
    past = [at for at in before.built if at.at_ns <= limit_ns]
    newer = [at for at in before.built if at.at_ns > limit_ns]
    if past:
        past = [BuiltCommits(first=past[0].first, last=past[-1].last, at_ns=past[-1].at_ns)]
    own = BuiltCommits(first=seq, last=seq, at_ns=at_ns)
    anew = {*built.emptied}
    anew |= {Window.from_name(item.window, length_ns).start_ns for item in staging.items() if item.window}
    kept = tuple(at for at in before.emptied if at[0] not in anew)
    emptied = (*kept, *((start, seq) for start in sorted(built.emptied)))
    update = {
        "built": (*past, *newer, own),
        "emptied": emptied,
        "built_to": built.built_to,
        "rebuilds_from_ns": built.rebuilds_from_ns,
    }
    return before.model_copy(update=update)


def _and_retired(before: Upkeep, retirement: Retirement, grace_ns: int) -> Upkeep:
    limit_ns = retirement.at_ns - grace_ns
    past = [at for at in before.retired if at.at_ns <= limit_ns]
    newer = [at for at in before.retired if at.at_ns > limit_ns]
    highest = max((at.to_ns for at in before.retired), default=retirement.to_ns)
    newest = retirement.model_copy(update={"to_ns": max(retirement.to_ns, highest)})
    return before.model_copy(update={"retired": (*past[-1:], *newer, newest)})


def _and_replaced(before: Upkeep, latest: Replaced, grace_ns: int) -> Upkeep:
    """Upkeep state after more files of a table were replaced; of the table's entries older than the grace
    period only the latest stays, which includes the others."""
    own = [at for at in before.replaced if at.table == latest.table]
    past = [at for at in own if at.at_ns <= latest.at_ns - grace_ns]
    through = dict(own[-1].through) if own else {}
    for lane, seq in latest.through:
        through[lane] = max(seq, through.get(lane, 0))
    whole = latest.model_copy(update={"through": tuple(sorted(through.items()))})
    kept = [at for at in before.replaced if at not in past[:-1]]
    return before.model_copy(update={"replaced": (*kept, whole)})


def swept(store: Store, hidden: Hidden, after: int = 0) -> list[str]:
    """Names of existing files and folders that `hidden` hides, so that a sweep may delete them; nothing is
    deleted here.

    The folder of a retired window is named as a whole, other files by their current (possibly renamed) name.
    after: skip windows that no commit after this number rewrote or built. O(windows + files of these
    windows); on a bucket, one request for each window and table.
    """
    found: list[str] = []
    anew = frozenset(hidden.starts_ns[hidden.seqs > after].tolist())
    folders: list[tuple[str, int]] = []
    for table in (*WINDOW_TABLES, STATS):
        for name in store.names(table):
            start = _start_ns(name, hidden.length_ns)
            if start is None:
                continue
            if hidden.retired_to_ns is not None and start + hidden.length_ns <= hidden.retired_to_ns:
                found.append(f"{table}/{name}")
            elif table != STATS and start in anew:
                folders.append((f"{table}/{name}", start))
    for names in map_concurrently(store, lambda at: _replaced(store, hidden, *at), folders):
        found += names
    for table in SIDE_TABLES:
        if table in hidden.sides:
            origins = ((name, origin(name.removesuffix(ASIDE))) for name in store.names(table))
            found += [
                f"{table}/{n}" for n, at in origins if at is not None and hidden.is_gone(table, *at[:2])
            ]
    return found


def _set_aside(store: Store, names: Iterable[str]) -> None:
    """Rename replaced data files by appending ASIDE to their names; missing files are skipped. Raises
    OSError.

    A search for `*.parquet` then no longer finds them, while readers that opened the lake before still do
    (`Manifest.read`, `encoding.still_at`).
    """
    there = [name for name in names if store.size(name) is not None]
    store.publish([Move(name, f"{name}{ASIDE}") for name in there])
    for name in there:
        if store.size(name) is not None:  # a bucket that copied and was interrupted
            store.remove(name)


def _replaced(store: Store, hidden: Hidden, folder: str, start_ns: int) -> list[str]:
    files = [(name, origin(name.removesuffix(ASIDE))) for name in store.names(folder)]
    ours = [(name, parts) for name, parts in files if parts is not None]
    if not ours:
        return []
    gone = hidden.mask(
        np.full(len(ours), start_ns),
        np.array([parts[0] for _, parts in ours]),
        np.array([parts[1] for _, parts in ours]),
    )
    return [f"{folder}/{name}" for (name, _), is_gone in zip(ours, gone, strict=True) if is_gone]


def _start_ns(folder: str, length_ns: int) -> int | None:
    """Start of the window, ns, from the last part of a folder's name; None for any other name."""
    span, _, name = folder.partition("=")
    if span not in SPANS:
        return None
    try:
        return Window.from_name(name, length_ns).start_ns
    except ValueError:
        return None
