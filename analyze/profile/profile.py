"""Profiles: sums and histograms over the sites of many requests, which can be added up.

A profile holds no request. It is divided into *slots* of time (windows, or blocks of windows), so that normal
variation can be separated from a change; profiles of different windows can be joined. All tests of sites run
on profiles, whether made from loaded requests or read from a lake's `stats/`.
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
"""Version of the meaning of a stored profile; profiles of other versions are made anew."""

OWN_TIME, OVERLAP, CALLS, STRETCH, TOTAL_TIME = 0, 1, 2, 3, 4
"""Measures in `votes`, one value a request and site: mean own time of the site's calls (ns); mean overlap of
their children * 2^16; number of calls * 2^16; stretch: time the children take together over the longest
child's, mean, * 2^16; mean duration of the calls (ns), for readers of statistics, not used by tests."""
RATIO_SCALE: Final = 65536.0
"""Factor applied to ratios and counts before binning."""

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
"""Schema of each table of a profile; rows sorted by the key columns, keys unique."""


class Watched(NamedTuple):
    """A stretch of time, with counts of its requests."""

    start_ns: int
    end_ns: int
    n: float = 0.0
    w: float = 0.0
    """n, w: number of requests, and their weight."""
    first_ns: int = 0
    last_ns: int = 0
    """first_ns, last_ns: start of the first and last request; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Interval of one sample."""

    sample: int
    start_ns: int
    end_ns: int
    """start_ns, end_ns: half-open interval."""
    watched: tuple[Watched, ...] = ()
    """Windows summed in this slot (itself if one); empty if no request was looked for."""

    @property
    def seconds(self) -> float:
        """Watched time in seconds; the slot's length if nothing is watched."""
        if self.watched:
            return sum(one.end_ns - one.start_ns for one in self.watched) / 1e9
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Profile:
    """Sums and histograms of sites by slot; table columns as in SCHEMAS."""

    names: Names
    slots: tuple[Slot, ...]
    votes: pa.Table
    visits: pa.Table
    patterns: pa.Table
    account: pa.Table
    responses: pa.Table
    origins: pa.Table
    folded: tuple[FoldedNames, ...] = ()
    """Folded names."""
    runs: SlotVotes | None = None
    """Votes too many for a table; `votes` is empty then."""

    def tables(self) -> dict[str, pa.Table]:
        """Name -> table; `runs` are converted to a table."""
        found = {name: getattr(self, name) for name in SCHEMAS}
        return found if self.runs is None else found | {"votes": self.runs.table()}

    def at_sites(self, table: str, column: str, slots: B1) -> F8:
        """[sites] sums of a column of a table over slots. slots: [all slots] True for those to include."""
        rows = getattr(self, table)
        inside = slots[rows["slot"].to_numpy()]
        return totals(rows["site"].to_numpy()[inside], rows[column].to_numpy()[inside], len(self.names.sites))

    def at_operations(self, table: str, column: str, slots: B1) -> F8:
        """[operations] sums of a column of a table over slots, as `at_sites`."""
        of = np.array([site.operation for site in self.names.sites], dtype=np.int64)
        return totals(of, self.at_sites(table, column, slots), len(self.names.operations))

    def responded(self, column: str, slots: B1) -> float:
        """Sum of a column of `responses` over slots. slots: [all slots] True for those to include."""
        return float(self.responses[column].to_numpy()[slots[self.responses["slot"].to_numpy()]].sum())

    def votes_at(self, site: int) -> pa.Table:
        """Votes of one site."""
        if self.runs is not None:
            return self.runs.of_sites(np.arange(len(self.names.sites)) == site).table()
        return self.votes.filter(pc.equal(self.votes["site"], site))


def columns_of(table: pa.Table) -> dict[str, Column]:
    """Column name -> array."""
    return {name: table[name].to_numpy() for name in table.column_names}


def recoded(name: str, columns: Mapping[str, Column], codes: Mapping[str, I8]) -> pa.Table:
    """Make a table with key columns renumbered; codes: key column -> [old number] new."""
    arrays = [
        pa.array(codes[key][columns[key]].astype(columns[key].dtype) if key in codes else columns[key])
        for key in SCHEMAS[name].names
    ]
    return pa.table(arrays, schema=SCHEMAS[name])


def summed(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables named `name`, add up rows of equal key, sort by key. O(rows log rows)."""
    keys, values = TABLES[name]
    rows = pa.concat_tables(parts) if parts else SCHEMAS[name].empty_table()
    if not rows.num_rows:
        return SCHEMAS[name].empty_table()
    found = keyed_sums([rows[key].to_numpy() for key in keys], [rows[value].to_numpy() for value in values])
    arrays = [pa.array(column) for columns in found for column in columns]
    return pa.table(arrays, schema=SCHEMAS[name])


def joined(profiles: Sequence[Profile]) -> Profile:
    """Join profiles; slots are numbered on from one to the next. O(rows log rows).

    A name folded in one profile is folded in all: a request with two of the merged names counts twice.
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
