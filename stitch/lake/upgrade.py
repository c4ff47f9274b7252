"""Converts a lake of an older layout version in place.

Files of version 2 are read as they are; only `flowdiff.json` changes, so that an older flowdiff, which could
not read what is written from then on, refuses the lake. Of version 1 every file gets a new generation, none
is overwritten:

1. The lake is verified, bit by bit; an interrupted publishing is finished.
2. Every file and commit is written anew, to the stage, synced; then a plan: which name becomes which.
3. The plan is carried out: old files go to an archive, new ones to their names. Any step may be interrupted
   and is done again. All the while `flowdiff.json` says version 1, so nobody reads half a lake.
4. `flowdiff.json` says the new version. The lake is checked; then the archive is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from schemas.commits import NO_COMMIT, CommitRecord, Publish
from schemas.config import Config
from schemas.errors import LakeError
from schemas.lake import LAYOUT_VERSION
from stitch.lake import version_1
from stitch.lake.chain import encode_record, lanes
from stitch.lake.encoding import encode
from stitch.lake.fsck import check
from stitch.lake.layout import (
    CONVERTIBLE,
    LAKE_FILE,
    STAGE,
    LakeInfo,
    commit_name,
    encode_info,
    file_name,
    origin,
    read_any_info,
    read_info,
    stage_lane_folder,
)
from stitch.lake.staging import described
from stitch.lake.store import Move, Store, UncertainError

ARCHIVE: Final = "control/version-1"
PLAN: Final = "control/upgrade/plan.json"
WORK: Final = f"{STAGE}/upgrade"
GENERATION: Final = 1


class Plan(Config):
    """What becomes what: each phase is durable before the next begins."""

    phases: tuple[tuple[tuple[str, str], ...], ...]


def upgrade(store: Store, lake: str) -> int | None:
    """Convert a lake; the caller holds its lock. Returns how many files were written anew, None where there
    was nothing to do.

    Version 1 needs the lake's size again on the disk, and the largest file in memory. Raises LakeError where
    the lake is not whole (it is unchanged then) or of a version that cannot be converted, OSError.
    """
    info = read_any_info(store)
    if info is None:
        raise LakeError(f"There is no lake at '{lake}': {LAKE_FILE} is missing.", remedy="Check the path.")
    if info.layout_version not in CONVERTIBLE:
        read_info(store, lake)  # refuses what we do not know
        n_files = None if store.size(PLAN) is None else _finish(store, lake)
        if info.layout_version == LAYOUT_VERSION:
            return n_files
        _switch(store, info)
        return n_files or 0
    if store.size(PLAN) is None:
        store.remove(WORK)
        try:
            plan = Plan(phases=_phases(store))
            store.put_if_absent(PLAN, plan.model_dump_json().encode(), WORK)
        except UncertainError:
            raise
        except BaseException:
            store.remove(WORK)  # a full disk is not left full
            raise
    plan = Plan.model_validate_json(store.read(PLAN).to_pybytes())
    for phase in plan.phases:
        store.publish([Move(old, new) for old, new in phase])
    _switch(store, info)
    return _finish(store, lake)


def _switch(store: Store, info: LakeInfo) -> None:
    """`flowdiff.json` says today's version from now on."""
    converted = LakeInfo(**{**info.model_dump(), "layout_version": LAYOUT_VERSION})
    store.replace(LAKE_FILE, encode_info(converted), WORK)
    store.remove(WORK)


def _finish(store: Store, lake: str) -> int:
    """Step 4 after the switch."""
    findings = check(store, lake)
    if findings:
        raise LakeError(
            f"After the upgrade the lake has {len(findings)} errors, the first: {findings[0].detail}.",
            remedy=f"The old files are kept in '{lake}/{ARCHIVE}'; please report it.",
        )
    plan = Plan.model_validate_json(store.read(PLAN).to_pybytes())
    for folder in (ARCHIVE, WORK, *(stage_lane_folder(lane) for lane in lanes(store))):
        store.remove(folder)
    for above in ("control", STAGE):
        store.settle(above)  # the plan goes last: without it nobody would look for the rest
    store.remove(PLAN.rpartition("/")[0])
    store.settle("control")
    return len(plan.phases[-2])


def _phases(store: Store) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Verify the lake, write the new generation to the stage, and say what has to be moved."""
    records = {lane: version_1.read_records(store, lane) for lane in lanes(store)}
    every = [record for chain in records.values() for record in chain]
    for chain in records.values():
        if chain:  # only the last one can be unpublished
            last = [Move(item.stage, item.final) for item in chain[-1].publish]
            store.publish([m for m in last if (store.size(m.stage), store.size(m.final)) != (None, None)])
    version_1.verify_files(store, every)
    kinds = version_1.find_kinds(store, every)
    files: list[tuple[str, str]] = []
    commits: list[tuple[str, str]] = []
    for chain in records.values():
        previous = NO_COMMIT
        for record in chain:
            items = tuple(_rewritten(store, item, kinds, every) for item in record.publish)
            files += [(item.stage, item.final) for item in items]
            data, previous = encode_record(_record(record, items, previous))
            name = commit_name(record.lane, record.seq)
            store.put(f"{WORK}/{name}", data)
            commits.append((f"{WORK}/{name}", name))
    staged = [stage for stage, _ in (*files, *commits)]
    if staged:
        store.persist(staged)
    old_files = [(item.final, f"{ARCHIVE}/{item.final}") for record in every for item in record.publish]
    old_commits = [(name, f"{ARCHIVE}/{name}") for _, name in commits]
    return tuple(old_files), tuple(old_commits), tuple(files), tuple(commits)


def _rewritten(
    store: Store, file: version_1.File, kinds: version_1.Kinds, every: list[version_1.Record]
) -> Publish:
    """The new generation of one file, on the stage."""
    table = version_1.converted(store, file, kinds, _flows_of(file.window, every))
    data = encode(file.table, table, file.window)
    folder, _, name = file.final.rpartition("/")
    told = origin(name)
    if told is None:
        raise LakeError(f"'{file.final}' has a name that flowdiff does not give.", remedy="Import anew.")
    final = f"{folder}/{file_name(*told, GENERATION)}"
    store.put(f"{WORK}/{final}", data)
    return described(file.table, file.window, f"{WORK}/{final}", final, table, data)


def _flows_of(window: str | None, every: list[version_1.Record]) -> Iterator[version_1.File]:
    for record in every:
        yield from (item for item in record.publish if item.table == "flows" and item.window == window)


def _record(old: version_1.Record, items: tuple[Publish, ...], previous: str) -> CommitRecord:
    return CommitRecord(
        kind=old.kind,
        lane=old.lane,
        seq=old.seq,
        previous=previous,
        owner=old.owner,
        created_by=old.created_by,
        generation=GENERATION,
        window_length_ns=old.window_length_ns,
        inputs=old.inputs,
        publish=items,
        counters=old.counters,
        config=old.config,
    )
