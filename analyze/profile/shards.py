"""Shards: disjoint sets of a profile's sites, tested one at a time, so that memory is bounded by a shard.

Sites that are tested together are in one shard: all sites of an operation, by a hash of its name, which is
the same in every process. Steps of records also belong together by where they begin, so all are one shard. A
shard is small to send to another process: only the names it needs; votes are read there.
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
from analyze.profile.profile import SCHEMAS, TABLES, Column, Profile, Slot, columns_of, recoded
from analyze.profile.slot_votes import SlotVotes
from analyze.stats.sums import totals
from schemas.arrays import B1, I8

MOST_VOTES: Final = 4_000_000
"""Maximum number of votes held as a table and tested at once: a GB. More are kept as runs."""
SHARD_VOTES: Final = 2_000_000
"""Votes of one shard: 0.1 GB."""
BY_SITE: Final = ("visits", "patterns")
"""Tables split by shard; a slot's rows lie in the order of the shards."""
PROBLEM: Final = 1
"""Index of the problem sample; the one before is the reference."""
_PART_BITS: Final = 10
PARTS: Final = 1 << _PART_BITS
"""Number of hash parts of the operations; a shard is one or several parts."""
_ODD: Final = np.uint32(0x9E3779B1)
"""2^32 over the golden ratio: multiplication by it spreads every bit of a hash to the highest (Knuth 6.4)."""


class SiteShard(NamedTuple):
    """Part of a profile's sites. Names, call patterns and operations are renumbered within the shard."""

    names: NameColumns
    slots: tuple[Slot, ...]
    votes: SlotVotes
    tables: Mapping[str, pa.Table]
    """visits and patterns of the shard; responses of the whole profile, by slot."""
    site: I8
    """site, pattern: number in the whole profile of each of the shard's sites and call patterns,
    ascending."""
    pattern: I8

    def profile(self) -> Profile:
        """The shard as a profile. O(rows).

        With a history for the noise the problem is tested as a whole: its votes are put in one slot.
        """
        problem = [slot for slot, one in enumerate(self.slots) if one.sample == PROBLEM]
        if not any(one.sample > PROBLEM for one in self.slots):
            return self._profile(self.votes)
        parts = (replace(p, slot=problem[0]) if p.slot in problem else p for p in self.votes.parts)
        return self._profile(replace(self.votes, parts=tuple(parts)))

    def at_sites(self, sites: B1) -> Profile:
        """The shard as a profile with votes of selected sites, not merged over slots; sites: [sites] mask."""
        return self._profile(self.votes.of_sites(sites))

    def _profile(self, votes: SlotVotes) -> Profile:
        empty = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
        return Profile(names_of(self.names), self.slots, **{**empty, **self.tables}, runs=votes)


def site_shards(profile: Profile, votes: SlotVotes, most_votes: int = SHARD_VOTES) -> Iterator[SiteShard]:
    """Yield a profile's shards, empty ones skipped; votes: all votes of the profile."""
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
    """[sites] hash part of the site's operation, the same in all files. O(sites and words)."""
    hashed = np.zeros(len(names.component), dtype=np.uint32)
    for texts in (names.component, names.point, names.callee):
        words = [crc32(word.encode()) for word in texts.dictionary.to_pylist()]
        hashed += np.array(words, dtype=np.uint32)[texts.indices.to_numpy()]
        hashed *= _ODD
    return (hashed >> (32 - _PART_BITS)).astype(np.int16)[names.operation]


def n_shards(names: Names, votes: SlotVotes, most_votes: int = SHARD_VOTES) -> int:
    """Number of shards for that many votes; 1 for records."""
    if any(site.kind is SiteKind.STEP for site in names.sites):
        return 1
    return min(PARTS, -(-votes.n_rows // most_votes))


def _by_shard(shard: np.ndarray[tuple[int], np.dtype[np.int16]], n: int) -> list[I8]:
    """[shards] row indices of each shard."""
    order = np.argsort(shard, kind="stable")
    return np.split(order, np.cumsum(np.bincount(shard, minlength=n))[:-1])


def _cut(rows: pa.RecordBatch, shard: Column, n: int) -> list[pa.RecordBatch]:
    """[shards] rows of each; slices without a copy if the rows are in shard order."""
    of = shard[rows["site"].to_numpy()]
    if not (of[1:] >= of[:-1]).all():
        order = np.argsort(of, kind="stable")
        rows, of = rows.take(pa.array(order)), of[order]
    ends = np.searchsorted(of, np.arange(n), side="right").tolist()
    return [rows.slice(first, past - first) for first, past in pairwise([0, *ends])]


def _by_slot(responses: pa.Table) -> pa.Table:
    """Sums of responses by slot, over root types and bins."""
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
    tables |= {name: recoded(name, columns_of(tables[name]), numbers) for name in BY_SITE}
    here = _names_of_some(names, site, pattern, numbers["pattern"])
    rows = votes.renumbered(numbers["site"], numbers["pattern"])
    return SiteShard(here, slots, rows, tables, site, pattern)


def _numbers(some: I8, n: int) -> I8:
    """[n + 1] number -> its index in `some`, else NO_CALLER; the last is that of NO_CALLER (-1)."""
    found = np.full(n + 1, NO_CALLER, dtype=np.int64)
    found[some] = np.arange(len(some))
    return found


def _names_of_some(names: NameColumns, site: I8, pattern: I8, to_pattern: I8) -> NameColumns:
    """Names of a subset of sites and call patterns, and the operations they need."""
    of_child = to_pattern[names.pattern] >= 0
    caller, operation, child = names.caller[site], names.operation[site], names.child[of_child]
    needed = np.unique(np.concatenate([caller[caller != NO_CALLER], operation, child]))
    to = _numbers(needed, len(names.component))
    at, none = pa.array(needed), np.zeros(0, dtype=np.int64)
    return NameColumns(
        component=_words_of(names.component, at),
        point=_words_of(names.point, at),
        callee=_words_of(names.callee, at),
        caller=to[caller],
        operation=to[operation],
        kind=names.kind[site],
        above=none,
        path_site=none,
        n_patterns=len(pattern),
        pattern=to_pattern[names.pattern[of_child]],
        child=to[child],
        calls=names.calls[of_child],
        awaited=names.awaited[of_child],
        roots=pa.array([], pa.string()),
        errors=pa.array([], pa.string()),
    )


def _words_of(texts: pa.DictionaryArray, at: pa.Array) -> pa.DictionaryArray:
    """Take entries, and drop unused words from the dictionary."""
    return texts.take(at).cast(pa.string()).dictionary_encode()
