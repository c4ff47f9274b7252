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
from zlib import crc32

import numpy as np
import pyarrow as pa

from analyze.profile.name_columns import NameColumns, name_columns, names_of
from analyze.profile.names import NO_CALLER, Names, SiteKind
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
_ODD: Final = np.uint32(0x9E3779B1)
"""Odd multiplier, 2^32 / golden ratio: makes the highest bits of a hash depend on all bits (Knuth 6.4)."""


class SiteShard(NamedTuple):
    """Part of a profile: some of the sites. Sites, call patterns and operations are renumbered from 0."""

    names: NameColumns
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
    names = name_columns(profile.names)
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


def site_parts(names: NameColumns) -> Column:
    """int16[sites]: part, in [0, PARTS), into which the site's operation is hashed; the same in all files.
    O(sites + distinct texts)."""
    hashed = np.zeros(len(names.component), dtype=np.uint32)
    for texts in (names.component, names.point, names.callee):
        words = [crc32(word.encode()) for word in texts.dictionary.to_pylist()]
        hashed += np.array(words, dtype=np.uint32)[texts.indices.to_numpy()]
        hashed *= _ODD
    return (hashed >> (32 - _PART_BITS)).astype(np.int16)[names.operation]


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
    names: NameColumns, slots: tuple[Slot, ...], site: I8, votes: SlotVotes, tables: dict[str, pa.Table]
) -> SiteShard:
    of_votes = (part.keys[2] for part in votes.parts)
    pattern = np.unique(np.concatenate([tables["patterns"]["pattern"].to_numpy(), *of_votes])).astype(
        np.int64
    )
    numbers = {"site": _numbers(site, len(names.caller)), "pattern": _numbers(pattern, names.n_patterns)}
    tables |= {name: table_of(name, renumbered(columns_of(tables[name]), numbers)) for name in BY_SITE}
    here = _names_of_some(names, site, pattern, numbers["pattern"])
    rows = votes.renumbered(numbers["site"], numbers["pattern"])
    return SiteShard(here, slots, rows, tables, site, pattern)


def _numbers(some: I8, n: int) -> I8:
    """int64[n + 1]: index in `some` of each number in [0, n), or NO_CALLER (-1) if absent. The last entry is
    -1, so that the number NO_CALLER (index -1) is mapped to NO_CALLER."""
    found = np.full(n + 1, NO_CALLER, dtype=np.int64)
    found[some] = np.arange(len(some))
    return found


def _names_of_some(names: NameColumns, site: I8, pattern: I8, to_pattern: I8) -> NameColumns:
    """Names of the chosen sites and call patterns, with the operations that they refer to, renumbered.

    site, pattern: int64[n] chosen numbers. to_pattern: int64[n_patterns + 1], index in `pattern` or -1."""
    of_child = to_pattern[names.pattern] >= 0
    caller, operation, child = names.caller[site], names.operation[site], names.child[of_child]
    needed = np.unique(np.concatenate([caller[caller != NO_CALLER], operation, child]))
    to = _numbers(needed, len(names.component))
    at, none = pa.array(needed), np.zeros(0, dtype=np.int64)
    return NameColumns.of(
        (_words_of(words, at) for words in (names.component, names.point, names.callee)),
        (to[caller], to[operation], names.kind[site]),
        (none, none),
        len(pattern),
        (to_pattern[names.pattern[of_child]], to[child], names.calls[of_child], names.awaited[of_child]),
        (pa.array([], pa.string()),) * 2,
    )


def _words_of(texts: pa.DictionaryArray, at: pa.Array) -> pa.DictionaryArray:
    """Select the entries at indices `at`, and drop unused texts from the dictionary."""
    return texts.take(at).cast(pa.string()).dictionary_encode()
