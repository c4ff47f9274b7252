"""Profiles: what the sites of many requests did, as sums and histograms that can be added up.

A profile holds no request. It is cut into *slots* of time (windows, or blocks of one), so that what the
system does on its own can be distinguished from a change; profiles of different windows can be joined.
Everything that is tested at sites is tested on profiles, whether they were made of the requests at hand or
read from a lake's `stats/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analyze.population import FoldedNames
from analyze.profile.folded_names import folded, folding_of
from analyze.profile.name_columns import name_columns
from analyze.profile.names import Names
from analyze.profile.numbering import RunNames
from analyze.stats.sums import keyed_sums, totals
from schemas.arrays import B1, F8, I8

if TYPE_CHECKING:
    from analyze.profile.slot_votes import SlotVotes

Column = npt.NDArray[Any]

PROFILE_VERSION: Final = 8
"""Version of the meaning of a stored profile; another one is made anew."""

OWN_TIME, OVERLAP, CALLS, STRETCH, TOTAL_TIME = 0, 1, 2, 3, 4
"""Measures of `votes`: a request's mean own time of a site's calls (ns); its mean overlap of their children
times 2^16; its number of calls times 2^16; the mean time that the children take together, over that of the
longest of them, times 2^16; the mean duration of its calls (ns), for readers of statistics: no test asks."""
RATIO_SCALE: Final = 65536.0
"""Ratios and counts are multiplied by this before they are put in bins of ratios."""

_KEYS: Final = {
    "measure": pa.int8(),
    "site": pa.int32(),
    "pattern": pa.int32(),
    "path": pa.int32(),
    "root": pa.int32(),
    "error": pa.int32(),
    "slot": pa.int32(),
    "bin": pa.int16(),
}

TABLES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    # One vote a request: requests, weight, squared weight, by value. The pattern is that of most calls.
    "votes": (("measure", "site", "pattern", "slot", "bin"), ("n", "w", "w2")),
    # Requests that touch a site; sums over them of weight times calls, critical ns, response ns, share of
    # failed calls.
    "visits": (
        ("site", "slot"),
        ("n", "w", "w2", "calls", "critical_ns", "response_ns", "failing", "failing_n"),
    ),
    # Requests with a call of the pattern; sums of weight times share of the site's calls, calls, inclusive
    # critical ns (with everything below); of records requests in which what follows occurs the first time.
    "patterns": (("site", "pattern", "slot"), ("n", "votes", "calls", "inclusive_ns", "entering_n")),
    # Exact account: sums of weight times calls on the critical path, and critical ns; of requests over the
    # profile's threshold of the response time, weight times the part of it that is critical here.
    "account": (("root", "path", "pattern", "slot"), ("calls", "critical_ns", "over")),
    # Requests of a root type by response time (ns), and those that failed.
    "responses": (("root", "slot", "bin"), ("n", "w", "w2", "ns", "ns2", "failed", "failed_n")),
    # Requests by the site and class of their first failing node.
    "origins": (("root", "site", "error", "slot"), ("n", "w")),
}
"""Table -> (key columns, summed columns)."""

SCHEMAS: Final = {
    name: pa.schema([*((key, _KEYS[key]) for key in keys), *((value, pa.float64()) for value in values)])
    for name, (keys, values) in TABLES.items()
}
"""Schema of each table of a profile, rows sorted by the key columns, each key once."""


class Watched(NamedTuple):
    """A stretch of time, and what it held."""

    start_ns: int
    end_ns: int
    n: float = 0.0
    w: float = 0.0
    """Requests, and their weight."""
    first_ns: int = 0
    last_ns: int = 0
    """When the first and the last of them began; of no request there is none."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A stretch of time of one sample."""

    sample: int
    start_ns: int
    end_ns: int
    """Half open."""
    watched: tuple[Watched, ...] = ()
    """Windows that were added up in it, itself where it is one; none where no request was looked for."""

    @property
    def seconds(self) -> float:
        """Its length."""
        if self.watched:
            return sum(one.end_ns - one.start_ns for one in self.watched) / 1e9
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Profile:
    """Sums and histograms of sites by slot; tables as in SCHEMAS."""

    names: Names
    slots: tuple[Slot, ...]
    votes: pa.Table
    visits: pa.Table
    patterns: pa.Table
    account: pa.Table
    responses: pa.Table
    origins: pa.Table
    folded: tuple[FoldedNames, ...] = ()
    """Names that were too many, as they were folded."""
    runs: SlotVotes | None = None
    """Votes that are too many for a table; `votes` is empty then."""

    def tables(self) -> dict[str, pa.Table]:
        """The tables by name; of votes in runs their table."""
        found = {name: getattr(self, name) for name in SCHEMAS}
        return found if self.runs is None else found | {"votes": self.runs.table()}

    def at_sites(self, table: str, column: str, slots: B1) -> F8:
        """Add a column of a table up over some slots: [sites]."""
        rows = getattr(self, table)
        inside = slots[rows["slot"].to_numpy()]
        return totals(rows["site"].to_numpy()[inside], rows[column].to_numpy()[inside], len(self.names.sites))

    def at_operations(self, table: str, column: str, slots: B1) -> F8:
        """Add the same up by operation: [operations]."""
        of = np.array([site.operation for site in self.names.sites], dtype=np.int64)
        return totals(of, self.at_sites(table, column, slots), len(self.names.operations))

    def responded(self, column: str, slots: B1) -> float:
        """Add a column of `responses` up over some slots."""
        return float(self.responses[column].to_numpy()[slots[self.responses["slot"].to_numpy()]].sum())

    def votes_at(self, site: int) -> pa.Table:
        """Votes at a site."""
        if self.runs is not None:
            return self.runs.of_sites(np.arange(len(self.names.sites)) == site).table()
        return self.votes.filter(pc.equal(self.votes["site"], site))


def columns_of(table: pa.Table) -> dict[str, Column]:
    """Give the columns of a table."""
    return {name: table[name].to_numpy() for name in table.column_names}


def recoded(name: str, columns: Mapping[str, Column], codes: Mapping[str, I8]) -> pa.Table:
    """Make a table with key columns renumbered; codes: key column -> [old number] new."""
    arrays = [
        pa.array(codes[key][columns[key]].astype(columns[key].dtype) if key in codes else columns[key])
        for key in SCHEMAS[name].names
    ]
    return pa.table(arrays, schema=SCHEMAS[name])


def summed(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Rows of several tables of one name with equal keys added up, sorted by key. O(rows log rows)."""
    keys, values = TABLES[name]
    rows = pa.concat_tables(parts) if parts else SCHEMAS[name].empty_table()
    if not rows.num_rows:
        return SCHEMAS[name].empty_table()
    found = keyed_sums([rows[key].to_numpy() for key in keys], [rows[value].to_numpy() for value in values])
    arrays = [pa.array(column) for columns in found for column in columns]
    return pa.table(arrays, schema=SCHEMAS[name])


def joined(profiles: Sequence[Profile]) -> Profile:
    """One profile of several, the slots of each after those of the one before. O(rows log rows).

    Names that are folded in one of them are folded in all: a request that has two of them counts twice.
    """
    before = [fold for profile in profiles for fold in profile.folded]
    folding = folding_of([profile.names for profile in profiles], before, None)
    run = RunNames()
    slots: list[Slot] = []
    parts: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
    for profile in profiles:
        codes = run.taken_in(name_columns(folded(profile.names, profile.folded, folding)))._asdict()
        codes["slot"] = len(slots) + np.arange(len(profile.slots))
        for name, table in profile.tables().items():
            parts[name].append(recoded(name, columns_of(table), codes))
        slots += profile.slots
    return Profile(
        run.names(),
        tuple(slots),
        **{name: summed(name, tables) for name, tables in parts.items()},
        folded=folding.folds,
    )
