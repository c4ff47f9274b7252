"""Profiles: sums and histograms by call site over many requests, which can be added up.

A profile holds no single requests. It is divided into *slots* of time (windows, or blocks of windows), so
that normal variation can be separated from a change; profiles of different windows can be joined. All tests
of sites run on profiles, whether computed from loaded requests or read from a lake's `stats/`.
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
from analyze.profile.name_rows import name_rows
from analyze.profile.names import Names
from analyze.profile.numbering import RunNames
from analyze.stats.sums import keyed_sums, totals
from schemas.arrays import B1, F8, I8

if TYPE_CHECKING:
    from analyze.profile.slot_votes import SlotVotes

Column = npt.NDArray[Any]

PROFILE_VERSION: Final = 8
"""Version of the semantics of a stored profile; stored profiles of other versions are computed again."""

OWN_TIME, OVERLAP, CALLS, STRETCH, TOTAL_TIME = 0, 1, 2, 3, 4
"""Values of the column `measure` of `votes`; each request has one value per measure and site.

OWN_TIME: mean self time of the site's calls, ns. OVERLAP: mean, over calls with several children, of the sum
of the children's durations / the length of their union, * 2^16. CALLS: number of calls, * 2^16. STRETCH: mean
of the length of the children's union / the longest child's duration, * 2^16. TOTAL_TIME: mean duration of the
calls, ns; only for readers of stored statistics, no test uses it."""
RATIO_SCALE: Final = 65536.0
"""Factor (2^16) applied to ratios and counts before binning, as bins are for integers."""

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
"""Table of a profile -> (names of its key columns, names of its summed columns)."""

SCHEMAS: Final = {
    name: pa.schema([*((key, _KEYS[key]) for key in keys), *((value, pa.float64()) for value in values)])
    for name, (keys, values) in TABLES.items()
}
"""Table of a profile -> schema; rows are sorted by the key columns, and keys are unique."""


class Watched(NamedTuple):
    """Interval of time whose requests were counted, usually a window."""

    start_ns: int
    """Start of the interval, Unix ns."""
    end_ns: int
    """End of the interval, exclusive, Unix ns."""
    n: float = 0.0
    """Number of requests in the interval."""
    w: float = 0.0
    """Sum of the requests' weights."""
    first_ns: int = 0
    """Start of the first request in the interval, Unix ns; 0 if there is none."""
    last_ns: int = 0
    """Start of the last request in the interval, Unix ns; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Interval of time of one sample; a profile has separate sums for each slot."""

    sample: int
    """Index of the sample."""
    start_ns: int
    """Start of the interval, Unix ns."""
    end_ns: int
    """End of the interval, exclusive, Unix ns."""
    watched: tuple[Watched, ...] = ()
    """Windows whose requests are summed in this slot; empty if requests were not counted yet."""

    @property
    def seconds(self) -> float:
        """Total length of the intervals in `watched`, s; length of the slot if `watched` is empty."""
        if self.watched:
            return sum(one.end_ns - one.start_ns for one in self.watched) / 1e9
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Profile:
    """Sums and histograms by call site and slot of time; the tables have the columns of SCHEMAS."""

    names: Names
    slots: tuple[Slot, ...]
    votes: pa.Table
    visits: pa.Table
    patterns: pa.Table
    account: pa.Table
    responses: pa.Table
    origins: pa.Table
    folded: tuple[FoldedNames, ...] = ()
    """Components whose names contain ids that were replaced by `#`, with the level of folding."""
    runs: SlotVotes | None = None
    """The rows of `votes` in compact form if they are too many for a table (`votes` is empty then); None:
    they are in `votes`."""

    def tables(self) -> dict[str, pa.Table]:
        """Table name -> table, for all names in SCHEMAS; `votes` is made from `runs` if these are set."""
        found = {name: getattr(self, name) for name in SCHEMAS}
        return found if self.runs is None else found | {"votes": self.runs.table()}

    def at_sites(self, table: str, column: str, slots: B1) -> F8:
        """float64[sites]: sum of a table's column over slots. slots: bool[slots], True to include a slot."""
        rows = getattr(self, table)
        inside = slots[rows["slot"].to_numpy()]
        return totals(rows["site"].to_numpy()[inside], rows[column].to_numpy()[inside], len(self.names.sites))

    def at_operations(self, table: str, column: str, slots: B1) -> F8:
        """float64[operations]: sum of a table's column over the sites of each operation and over slots.

        slots: bool[slots], True to include a slot."""
        of = np.array([site.operation for site in self.names.sites], dtype=np.int64)
        return totals(of, self.at_sites(table, column, slots), len(self.names.operations))

    def responded(self, column: str, slots: B1) -> float:
        """Sum of a column of `responses` over slots. slots: bool[slots], True to include a slot."""
        return float(self.responses[column].to_numpy()[slots[self.responses["slot"].to_numpy()]].sum())

    def votes_at(self, site: int) -> pa.Table:
        """Rows of the table `votes` of site number `site`."""
        if self.runs is not None:
            return self.runs.of_sites(np.arange(len(self.names.sites)) == site).table()
        return self.votes.filter(pc.equal(self.votes["site"], site))


def columns_of(table: pa.Table) -> dict[str, Column]:
    """Mapping column name -> numpy array for the columns of a table."""
    return {name: table[name].to_numpy() for name in table.column_names}


def renumbered(columns: Mapping[str, Column], codes: Mapping[str, I8]) -> dict[str, Column]:
    """Columns of a table with key columns renumbered.

    codes: key column -> int64[old numbers] new number; key columns that are absent keep their numbers."""
    return {
        key: codes[key][column].astype(column.dtype) if key in codes else column
        for key, column in columns.items()
    }


def table_of(name: str, columns: Mapping[str, Column]) -> pa.Table:
    """Table `name` of a profile from its columns."""
    return pa.table([pa.array(columns[key]) for key in SCHEMAS[name].names], schema=SCHEMAS[name])


def summed_columns(name: str, parts: Sequence[Mapping[str, Column]]) -> dict[str, Column]:
    """Concatenate columns of table `name`, add up rows with equal keys, sort by key. O(rows log rows)."""
    keys, values = ([np.concatenate([part[of] for part in parts]) for of in names] for names in TABLES[name])
    sums = keyed_sums(keys, values)
    return dict(zip((*TABLES[name][0], *TABLES[name][1]), (*sums[0], *sums[1]), strict=True))


def summed(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Table `name` with the sums of `parts`, see `summed_columns`."""
    rows = [columns_of(part) for part in parts if part.num_rows]
    return table_of(name, summed_columns(name, rows)) if rows else SCHEMAS[name].empty_table()


def joined(profiles: Sequence[Profile]) -> Profile:
    """Join profiles; the slots of each profile follow those of the profile before it. O(rows log rows).

    A component whose names are folded in one profile is folded in all. A request that has two names which
    become equal counts twice.
    """
    before = [fold for profile in profiles for fold in profile.folded]
    folding = folding_of([profile.names for profile in profiles], before, None)
    run = RunNames()
    slots: list[Slot] = []
    parts: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
    for profile in profiles:
        codes = run.taken_in(name_rows(folded(profile.names, profile.folded, folding)))
        codes["slot"] = len(slots) + np.arange(len(profile.slots))
        for name, table in profile.tables().items():
            parts[name].append(table_of(name, renumbered(columns_of(table), codes)))
        slots += profile.slots
    return Profile(
        run.names(),
        tuple(slots),
        **{name: summed(name, tables) for name, tables in parts.items()},
        folded=folding.folds,
    )
