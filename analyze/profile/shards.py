"""Shards: disjoint sets of a profile's sites, tested one at a time, so that memory is bounded by a shard.

Sites that must be tested together are in one shard: all sites of an operation, chosen by a hash of its name
that is the same in every process. Steps of activity records must also be together with the steps that begin
at the same point, so a profile of records is one shard. A shard is small to send to another process: it has
only the names it needs, and its votes are read in that process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyze.profile.name_rows import NameRows, name_rows, no_names
from analyze.profile.names import Names, SiteKind
from analyze.profile.numbering import names_of
from analyze.profile.profile import SCHEMAS, TABLES, Column, Profile, Slot, columns_of, renumbered, table_of
from analyze.profile.slot_votes import SlotVotes
from analyze.stats.sums import totals
from schemas.arrays import B1, I8

MOST_VOTES: Final = 4_000_000
"""Maximum number of rows of `votes` for which a profile holds them as a table and is tested as a whole (1
GB); more rows are held in compact form, as runs."""
SHARD_VOTES: Final = 2_000_000
"""Wanted number of rows of `votes` in a shard: 0.1 GB."""
BY_SITE: Final = ("visits", "patterns")
"""Names of the tables that are split into shards; the rows of a slot are ordered by shard."""
PROBLEM: Final = 1
"""Index of the problem sample; the reference is sample 0."""
_PART_BITS: Final = 10
PARTS: Final = 1 << _PART_BITS
"""Number of parts into which operations are hashed; a shard consists of one or several parts."""


class SiteShard(NamedTuple):
    """Part of a profile: some of the sites. Sites, call patterns and operations are renumbered from 0."""

    names: NameRows
    slots: tuple[Slot, ...]
    votes: SlotVotes
    tables: Mapping[str, pa.Table]
    """`visits` and `patterns` of the shard's sites; `responses` of the whole profile, summed by slot."""
    site: I8
    """int64[sites of the shard]: number of each site in the whole profile, ascending."""
    pattern: I8
    """int64[call patterns of the shard]: number of each call pattern in the whole profile, ascending."""

    def profile(self) -> Profile:
        """The shard as a profile. O(rows).

        If there is a history (from which noise is estimated), all votes of the problem sample are put into
        the sample's first slot, as the problem is tested as a whole.
        """
        problem = [slot for slot, one in enumerate(self.slots) if one.sample == PROBLEM]
        if not any(one.sample > PROBLEM for one in self.slots):
            return self._profile(self.votes)
        parts = (replace(p, slot=problem[0]) if p.slot in problem else p for p in self.votes.parts)
        return self._profile(replace(self.votes, parts=tuple(parts)))

    def at_sites(self, sites: B1) -> Profile:
        """The shard as a profile with the votes of some sites only, not merged over slots. sites: bool[sites
        of the shard], True to include a site."""
        return self._profile(self.votes.of_sites(sites))

    def _profile(self, votes: SlotVotes) -> Profile:
        empty = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
        return Profile(names_of(self.names), self.slots, **{**empty, **self.tables}, runs=votes)


def site_shards(profile: Profile, votes: SlotVotes, most_votes: int = SHARD_VOTES) -> Iterator[SiteShard]:
    """Yield the shards of a profile that have sites. votes: all votes of the profile. most_votes: wanted
    number of votes per shard."""
    names = name_rows(profile.names)
    n = n_shards(profile.names, votes, most_votes)
    shard = (site_parts(names).astype(np.int64) * n // PARTS).astype(np.int16)
    runs = [_by_shard(shard[part.keys[1]], n) for part in votes.parts]
    pieces = {
        name: [_cut(batch, shard, n) for batch in getattr(profile, name).to_batches()] for name in BY_SITE
    }
    responses = _by_slot(profile.responses)
    for number in range(n):
        site = np.flatnonzero(shard == number)
        if not len(site):
            continue
        mine = tuple(part.some(of[number]) for part, of in zip(votes.parts, runs, strict=True))
        tables = {
            name: pa.Table.from_batches([of[number] for of in several], SCHEMAS[name]).combine_chunks()
            for name, several in pieces.items()
        }
        yield _shard(names, profile.slots, site, SlotVotes(mine), tables | {"responses": responses})


def site_parts(names: NameRows) -> Column:
    """int16[sites]: part, in [0, PARTS), of the site's operation: the highest bits of its key, a hash that
    is the same in all files. O(sites)."""
    operation: Column = names["sites"].field("operation").to_numpy()
    return (operation.view(np.uint64) >> np.uint64(64 - _PART_BITS)).astype(np.int16)


def n_shards(names: Names, votes: SlotVotes, most_votes: int = SHARD_VOTES) -> int:
    """Number of shards of a profile, each with about `most_votes` rows of `votes`; 1 for activity records."""
    if any(site.kind is SiteKind.STEP for site in names.sites):
        return 1
    return min(PARTS, -(-votes.n_rows // most_votes))


def _by_shard(shard: np.ndarray[tuple[int], np.dtype[np.int16]], n: int) -> list[I8]:
    """Indices of the rows of each shard: an int64[n] per shard. shard: int16[rows]; n: number of shards."""
    order = np.argsort(shard, kind="stable")
    return np.split(order, np.cumsum(np.bincount(shard, minlength=n))[:-1])


def _cut(rows: pa.RecordBatch, shard: Column, n: int) -> list[pa.RecordBatch]:
    """Rows of each shard; slices without a copy if `rows` are ordered by shard. shard: [sites], shard of each
    site; n: number of shards."""
    of = shard[rows["site"].to_numpy()]
    if not (of[1:] >= of[:-1]).all():
        order = np.argsort(of, kind="stable")
        rows, of = rows.take(pa.array(order)), of[order]
    ends = np.searchsorted(of, np.arange(n), side="right").tolist()
    return [rows.slice(first, past - first) for first, past in pairwise([0, *ends])]


def _by_slot(responses: pa.Table) -> pa.Table:
    """Table `responses` summed over root types and bins: one row per slot, with root and bin 0."""
    slot = responses["slot"].to_numpy()
    n = int(slot.max(initial=-1)) + 1
    columns: dict[str, Column] = {"root": np.zeros(n), "slot": np.arange(n), "bin": np.zeros(n)}
    columns |= {name: totals(slot, responses[name].to_numpy(), n) for name in TABLES["responses"][1]}
    return pa.table({f.name: columns[f.name].astype(f.type.to_pandas_dtype()) for f in SCHEMAS["responses"]})


def _shard(
    names: NameRows, slots: tuple[Slot, ...], site: I8, votes: SlotVotes, tables: dict[str, pa.Table]
) -> SiteShard:
    of_votes = (part.keys[2] for part in votes.parts)
    pattern = np.unique(np.concatenate([tables["patterns"]["pattern"].to_numpy(), *of_votes])).astype(
        np.int64
    )
    numbers = {
        "site": _numbers(site, len(names["sites"])),
        "pattern": _numbers(pattern, len(names["patterns"])),
    }
    tables |= {name: table_of(name, renumbered(columns_of(tables[name]), numbers)) for name in BY_SITE}
    rows = votes.renumbered(numbers["site"], numbers["pattern"])
    return SiteShard(_names_of_some(names, site, pattern), slots, rows, tables, site, pattern)


def _numbers(some: I8, n: int) -> I8:
    """int64[n]: index in `some` of each number in [0, n), or -1 if absent."""
    found = np.full(n, -1, dtype=np.int64)
    found[some] = np.arange(len(some))
    return found


def _names_of_some(names: NameRows, site: I8, pattern: I8) -> NameRows:
    """Names of the chosen sites and call patterns (int64[n] numbers), and the operations that they refer
    to."""
    sites, patterns = (
        names[name].take(pa.array(of)) for name, of in (("sites", site), ("patterns", pattern))
    )
    children = patterns.field("children").flatten()
    needed = [*(sites.field(name) for name in ("caller", "operation")), children.field("operation")]
    operations = names["operations"]
    chosen = operations.filter(pc.is_in(operations.field("operation"), pa.concat_arrays(needed)))
    return {**no_names(), "operations": chosen, "sites": sites, "patterns": patterns}
