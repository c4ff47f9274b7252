"""Shards of sites: a profile of some sites at a time, so that tests need no more memory than one shard.

What is tested together lies in one shard: all sites of an operation. Steps of records belong together by
where they begin as well, and are one shard.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from analyze.profile.names import Names, SiteKind
from analyze.profile.profile import SCHEMAS, Profile, summed
from analyze.profile.votes import Votes, joined_votes
from schemas.arrays import I8

MOST_VOTES: Final = 4_000_000
"""Votes that are held as a table, and tested at once: a GB. More stay in runs."""
SHARD_VOTES: Final = 1_500_000
"""Votes of a shard: 0.4 GB."""


class SiteShard(NamedTuple):
    """Some sites of a profile, numbered by themselves."""

    profile: Profile
    """Its votes, visits and shapes; of responses what each slot holds."""
    site: I8
    """What number each site has in the whole, ascending; likewise the shapes."""
    shape: I8


def site_shards(profile: Profile, most_votes: int = SHARD_VOTES) -> Iterator[SiteShard]:
    """Give a profile shard by shard; by itself where its votes are a table."""
    votes, names = profile.runs, profile.names
    if votes is None:
        yield SiteShard(profile, np.arange(len(names.sites)), np.arange(len(names.shapes)))
        return
    operation = np.array([site.operation for site in names.sites], dtype=np.int64)
    n = -(-votes.n_rows // most_votes)
    if any(site.kind is SiteKind.STEP for site in names.sites):
        n = 1
    shard = (operation % n).astype(np.int16)
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
        yield _shard(profile, site, mine, of | {"responses": responses})


def _by_shard(shard: np.ndarray[tuple[int], np.dtype[np.int16]], n: int) -> tuple[I8, I8]:
    """(rows in the order of their shards, where each shard begins)."""
    order = np.argsort(shard, kind="stable")
    return order, np.concatenate(([0], np.cumsum(np.bincount(shard, minlength=n))))


def _by_slot(responses: pa.Table) -> pa.Table:
    """Response times of each slot, all root types and bins together."""
    none = {"root": np.zeros(responses.num_rows, np.int32), "bin": np.zeros(responses.num_rows, np.int16)}
    columns = [pa.array(none[name]) if name in none else responses[name] for name in responses.column_names]
    return summed("responses", [pa.table(columns, schema=SCHEMAS["responses"])])


def _shard(profile: Profile, site: I8, votes: Votes, tables: dict[str, pa.Table]) -> SiteShard:
    names = profile.names
    shape = np.unique(np.concatenate([votes.keys[2], tables["shapes"]["shape"].to_numpy()])).astype(np.int64)
    to_site = np.zeros(len(names.sites), np.int64)
    to_site[site] = np.arange(len(site))
    to_shape = np.zeros(len(names.shapes), np.int64)
    to_shape[shape] = np.arange(len(shape))
    here = Names(
        operations=names.operations,
        sites=tuple([names.sites[at] for at in site.tolist()]),
        shapes=tuple([names.shapes[at] for at in shape.tolist()]),
    )
    for name in ("visits", "shapes"):
        for key, to in (("site", to_site), ("shape", to_shape)):
            if key in SCHEMAS[name].names:
                field = SCHEMAS[name].field(key)
                number = pa.array(to[tables[name][key].to_numpy()].astype(np.int32))
                tables[name] = tables[name].set_column(SCHEMAS[name].names.index(key), field, number)
    rows = votes.renumbered(to_site, to_shape).ordered().table()
    empty = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
    return SiteShard(Profile(here, profile.slots, **(empty | tables | {"votes": rows})), site, shape)
