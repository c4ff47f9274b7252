"""Shards of sites: some sites of a profile at a time, so that tests need no more memory than one shard.

What is tested together lies in one shard: all sites of an operation. Steps of records belong together by
where they begin as well, and are one shard. A shard goes to another process as it is: in few bytes, with no
name that it does not need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from analyze.profile.name_columns import NameColumns, name_columns, names_of
from analyze.profile.names import NO_CALLER, Names, SiteKind
from analyze.profile.profile import SCHEMAS, Profile, Slot, summed
from analyze.profile.votes import SlotVotes, Votes, joined_votes
from schemas.arrays import I8

MOST_VOTES: Final = 4_000_000
"""Votes that are held as a table, and tested at once: a GB. More stay in runs."""
SHARD_VOTES: Final = 1_000_000
"""Votes of a shard: 0.25 GB."""


class SiteShard(NamedTuple):
    """Some sites of a profile. Their names, call patterns and operations are numbered by themselves."""

    names: NameColumns
    slots: tuple[Slot, ...]
    votes: Votes
    tables: Mapping[str, pa.Table]
    """Visits and shapes; of responses what each slot holds."""
    site: I8
    """What number each site has in the whole, ascending; likewise the call patterns."""
    shape: I8

    def profile(self) -> Profile:
        """Give the shard as a profile. O(rows)."""
        empty = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
        rows = {**self.tables, "votes": self.votes.ordered().table()}
        return Profile(names_of(self.names), self.slots, **(empty | rows))


def site_shards(profile: Profile, votes: SlotVotes, most_votes: int = SHARD_VOTES) -> Iterator[SiteShard]:
    """Give a profile shard by shard; votes: those of the profile, in runs."""
    names = name_columns(profile.names)
    n = n_shards(profile.names, votes, most_votes)
    shard = (names.operation % n).astype(np.int16)
    parts = [
        (part, *_by_shard(shard[part.site], n), np.cumsum(part.n_rows, dtype=np.int64))
        for part in votes.parts
    ]
    tables = {name: getattr(profile, name) for name in ("visits", "shapes")}
    rows = {name: _by_shard(shard[table["site"].to_numpy()], n) for name, table in tables.items()}
    responses = _by_slot(profile.responses)
    for number in range(n):
        site = np.flatnonzero(shard == number)
        some = slice(number, number + 2)
        mine = joined_votes(
            [part.taken(runs[slice(*starts[some])], ends) for part, runs, starts, ends in parts]
        )
        of = {
            name: tables[name].take(pa.array(order[first[number] : first[number + 1]]))
            for name, (order, first) in rows.items()
        }
        yield _shard(names, profile.slots, site, mine, of | {"responses": responses})


def n_shards(names: Names, votes: SlotVotes, most_votes: int = SHARD_VOTES) -> int:
    """Count the shards of so many votes; records are one."""
    if any(site.kind is SiteKind.STEP for site in names.sites):
        return 1
    return -(-votes.n_rows // most_votes)


def _by_shard(shard: np.ndarray[tuple[int], np.dtype[np.int16]], n: int) -> tuple[I8, I8]:
    """(rows in the order of their shards, where each shard begins)."""
    order = np.argsort(shard, kind="stable")
    return order, np.concatenate(([0], np.cumsum(np.bincount(shard, minlength=n))))


def _by_slot(responses: pa.Table) -> pa.Table:
    """Response times of each slot, all root types and bins together."""
    none = {"root": np.zeros(responses.num_rows, np.int32), "bin": np.zeros(responses.num_rows, np.int16)}
    columns = [pa.array(none[name]) if name in none else responses[name] for name in responses.column_names]
    return summed("responses", [pa.table(columns, schema=SCHEMAS["responses"])])


def _shard(
    names: NameColumns, slots: tuple[Slot, ...], site: I8, votes: Votes, tables: dict[str, pa.Table]
) -> SiteShard:
    shape = np.unique(np.concatenate([votes.keys[2], tables["shapes"]["shape"].to_numpy()])).astype(np.int64)
    numbers = {"site": _numbers(site, len(names.caller)), "shape": _numbers(shape, names.n_shapes)}
    for name in ("visits", "shapes"):
        for key in numbers.keys() & set(SCHEMAS[name].names):
            number = numbers[key][tables[name][key].to_numpy()].astype(np.int32)
            place = SCHEMAS[name].names.index(key)
            tables[name] = tables[name].set_column(place, SCHEMAS[name].field(key), pa.array(number))
    here = _names_of_some(names, site, shape, numbers["shape"])
    rows = votes.renumbered(numbers["site"], numbers["shape"]).compact()
    return SiteShard(here, slots, rows, tables, site, shape)


def _numbers(some: I8, n: int) -> I8:
    """[n + 1] the place of each number among some; NO_CALLER of the others, and of NO_CALLER itself."""
    found = np.full(n + 1, NO_CALLER, dtype=np.int64)
    found[some] = np.arange(len(some))
    return found


def _names_of_some(names: NameColumns, site: I8, shape: I8, to_shape: I8) -> NameColumns:
    """Names of some sites and call patterns, and the operations that they need."""
    of_child = to_shape[names.shape] >= 0
    caller, operation, child = names.caller[site], names.operation[site], names.child[of_child]
    needed = np.unique(np.concatenate([caller[caller != NO_CALLER], operation, child]))
    to = _numbers(needed, len(names.component))
    at, none = pa.array(needed), np.zeros(0, dtype=np.int64)
    return NameColumns(
        component=names.component.take(at),
        point=names.point.take(at),
        callee=names.callee.take(at),
        caller=to[caller],
        operation=to[operation],
        kind=names.kind[site],
        above=none,
        path_site=none,
        n_shapes=len(shape),
        shape=to_shape[names.shape[of_child]],
        child=to[child],
        calls=names.calls[of_child],
        awaited=names.awaited[of_child],
        roots=pa.array([], pa.string()),
        errors=pa.array([], pa.string()),
    )
