"""Series of numbers by tick, made from a window's statistics when it seals, and stored beside these
statistics.

A tick is a time slot of a window, or the window. A series has one value per tick, stored as its parts: number
of events `den`, and sums `num` and `sq` over the events. So ticks can be pooled by adding their sums, as rare
series need. Slow calls (slower than nearly all normal ones) are counted once a baseline defines them: until
then the distribution of own times is stored, in bins of half an octave.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.lib.recfunctions import repack_fields

from analyze.load import load_population
from analyze.numbering import Numbering
from analyze.profile.build import profile_of
from analyze.profile.encoding import version
from analyze.profile.names import NO_CALLER, Names
from analyze.profile.profile import OWN_TIME, Profile, Slot
from analyze.profile.stored import key_of, window_profile
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod
from analyze.stats.histograms import BIN_LOG, BINS_PER_OCTAVE
from analyze.stats.sums import totals
from analyze.watch.instances import InstanceSums, instances_of
from schemas.arrays import B1, F8, I8
from schemas.errors import PeriodError
from schemas.windows import NS_PER_DAY, NS_PER_MINUTE, Window
from stitch.lake.stats_files import StatsKey, put_stats, read_stats, settings_of, source_of
from stitch.lake.store import Store

SERIES_VERSION: Final = 4
TIME, SLOW, FAIL, CALLS, PATTERN, MEAN, FAILURES, INSTANCE, INSTANCE_FAIL = (
    "time",
    "slow",
    "fail",
    "calls",
    "pattern",
    "mean",
    "failures",
    "instance",
    "instance fail",
)
OPERATION = "operation"
"""Kind of the series that count the calls of an operation, the denominator of other series.

All kinds: for call sites log own time, share of slow calls, share of failing calls, calls per call of the
caller, share of a call pattern; for root types log response time, share of failed requests; for instances of
a component with several instances log own time and share of failing visits, both relative to the siblings.
"""
LOGS: Final = frozenset({TIME, MEAN, INSTANCE})
SHARES: Final = frozenset({SLOW, FAIL, PATTERN, FAILURES, INSTANCE_FAIL})
FAILING: Final = frozenset({FAIL, FAILURES})
"""Kinds of series that count failures.

INSTANCE_FAIL is missing: its values are relative to the siblings, so they are negative as often as positive,
and both tails matter.
"""
INSTANCES: Final = frozenset({INSTANCE, INSTANCE_FAIL})
FLOORS: Final = {
    TIME: 0.1,
    SLOW: 0.05,
    FAIL: 0.01,
    CALLS: 0.1,
    PATTERN: 0.05,
    MEAN: 0.1,
    FAILURES: 0.01,
    INSTANCE: 0.1,
    INSTANCE_FAIL: 0.01,
}
"""Kind of series -> smallest change that a comparison reports: difference of logs, or of shares."""
BOTH_WAYS: Final = frozenset({CALLS, PATTERN})
"""Kinds that alarm in both directions; times, slow calls and failures alarm upward only."""
COARSE: Final = BINS_PER_OCTAVE // 2
"""Number of profile bins in one coarse bin of half an octave."""
_HEAD: Final = "flowdiff.watch"
_MOST_HEAD: Final = 1 << 28
"""Maximum size of uncompressed metadata, bytes: names of half a million series."""
HOUR_NS: Final = 60 * NS_PER_MINUTE
PATTERN_MARK: Final = " => "
CALLER_MARK: Final = " < "


class Name(NamedTuple):
    """Key of a series: the kind of measured value, and its subject."""

    kind: str
    component: str
    operation: str
    """Operation; `operation -> callee` for a call; empty for a root type."""
    of: str
    """Subject of the series: call site with its caller, call pattern, root type, or instance (`component on
    host`).
    """

    @property
    def places(self) -> tuple[str, ...]:
        """Components that the series concerns: the one that does the work, then the callee of a call."""
        callee = self.operation.partition(" -> ")[2]
        return (self.component, callee) if callee else (self.component,)

    @property
    def text(self) -> str:
        """Name for display: `KIND SUBJECT`."""
        return f"{self.kind} {self.of}"


_FREE: Final = Name(OPERATION, "", "", "")
"""Placeholder for the name of a series number that is free."""
Rows = npt.NDArray[np.void]
"""Array with dtype ROW: values of series by tick."""
ROW: Final = np.dtype(
    [("series", np.int64), ("tick", np.int64), ("bin", np.int64)]
    + [(name, np.float64) for name in ("den", "num", "sq")]
)
"""Dtype of one row: the sums of one series in one tick (`bin` -1), or one bin of its distribution of own
times.

With `bin` >= 0, `num` is the number of requests whose own time lies in that coarse bin.
"""


def rows_of(
    series: I8, tick: I8, den: F8 | float, num: F8, sq: F8 | float = 0.0, bin_: I8 | int = -1
) -> Rows:
    """Assemble an array of dtype ROW from columns."""
    rows = np.empty(len(series), dtype=ROW)
    rows["series"], rows["tick"], rows["bin"] = series, tick, bin_
    rows["den"], rows["num"], rows["sq"] = den, num, sq
    return rows


@dataclass(frozen=True, slots=True)
class WindowTicks:
    """Values of all series in one window: names of the series, and sums by tick."""

    start_ns: int
    tick_ns: int
    n_ticks: int
    names: tuple[Name, ...]
    rows: Rows
    requests: F8
    """[ticks] number of requests in each tick of the window."""
    folded: int = 0
    """Number of instances that have no series because their component has too many."""


MaybeTicks = TypeVar("MaybeTicks", WindowTicks, WindowTicks | None)


def tick_length(window_ns: int, slot_ns: int) -> int:
    """Length of a tick, ns: the time slot if it divides the window into several parts, else the whole
    window."""
    return slot_ns if 0 < slot_ns < window_ns and window_ns % slot_ns == 0 else window_ns


@dataclass(frozen=True, slots=True)
class Cut:
    """Settings that determine how a window is turned into series."""

    refine: RefineSettings
    slot_ns: int
    most_instances: int = 0
    """Maximum number of instances watched per component; 0: none."""

    def tick_ns(self, window_ns: int) -> int:
        """Tick length, ns, for windows of length `window_ns`."""
        return tick_length(window_ns, self.slot_ns)

    def settings(self, window_ns: int) -> str:
        """Fingerprint of the settings; stored statistics are reused only if it matches."""
        told = f"{self.refine.model_dump_json()} {self.tick_ns(window_ns)} {self.most_instances}"
        return settings_of(f"watch {SERIES_VERSION} {version()} {told}")


def window_ticks(here: LakePeriod, cut: Cut) -> WindowTicks | None:
    """Series of a whole window by tick, read from the lake if stored, else computed and stored; None without
    requests."""
    (window,) = here.windows
    tick_ns = cut.tick_ns(window.length_ns)
    key = StatsKey(window, key_of(here, cut.refine).source, cut.settings(window.length_ns), "ticks")

    def make() -> WindowTicks | None:
        made = _profile(here, cut, tick_ns)
        if made is None:
            return None
        return ticks_of(*made, window.start_ns, tick_ns, window.length_ns // tick_ns)

    return _kept_or_made(here.store, key, make)


def day_hours(day: LakePeriod, windows: Iterable[LakePeriod], cut: Cut) -> WindowTicks:
    """Series of all windows of a day with hourly ticks, read from the lake if stored, else computed and
    stored."""
    files = [*(("flows", path) for path in day.flows), *(("structures", path) for path in day.structures)]
    key = StatsKey(
        Window(day.period.start_ns, NS_PER_DAY),
        source_of([(table, day.sums[path]) for table, path in files]),
        cut.settings(day.window_ns),
        "day",
    )

    def make() -> WindowTicks:
        ring = Ring(cut.tick_ns(day.window_ns))
        for here in windows:
            ticks = window_ticks(here, cut)
            if ticks is not None:
                ring.add_hours(ticks)
        return ring.by_hour(day.period.start_ns)

    return _kept_or_made(day.store, key, make)


def _kept_or_made(store: Store, key: StatsKey, make: Callable[[], MaybeTicks]) -> WindowTicks | MaybeTicks:
    """Stored statistics under `key`; if there are none, the result of `make`, which is then stored.

    Raises what `make` raises.
    """
    with suppress(OSError):  # an unreadable cache counts as empty
        kept = read_stats(store, key)
        found = None if kept is None else _decode(kept)
        if found is not None:
            return found
    made = make()
    if made is not None:
        with suppress(OSError):  # a read-only lake can be watched, too
            put_stats(store, key, _encode(made))
    return made


def _profile(here: LakePeriod, cut: Cut, tick_ns: int) -> tuple[Profile, InstanceSums | None] | None:
    """Compute (profile by tick, sums of instances) of a window; None without requests.

    If a tick is the window, the profile is the stored one, without instances.
    """
    (window,) = here.windows
    if tick_ns == window.length_ns:
        whole = window_profile(here, cut.refine)
        return None if whole is None else (whole, None)
    try:
        population = load_population([("window", here)], cut.refine).population
    except PeriodError:
        return None
    slots = [Slot(0, at, at + tick_ns) for at in range(window.start_ns, window.end_ns, tick_ns)]
    made = profile_of(population, slots)
    return made.profile, instances_of(population, made, cut.most_instances) if cut.most_instances else None


class _Rows:
    """Collects the rows of a window's series, and numbers their names."""

    def __init__(self) -> None:
        self.names = Numbering[Name]()
        self.parts: list[Rows] = []

    def add(self, names: list[Name], series: I8, tick: I8, den: F8, num: F8, sq: F8 | None = None) -> None:
        """Add rows of sums; rows with `den` 0 are dropped.

        names: names of series; series: [rows] index into `names`; tick, den, num, sq: [rows].
        """
        rows = rows_of(self.codes(names)[series], tick, den, num, 0.0 if sq is None else sq)
        self.parts.append(rows[den > 0])

    def codes(self, names: list[Name]) -> I8:
        """[names] number of each name; new names get the next numbers."""
        return np.array([self.names[name] for name in names], dtype=np.int64)


def ticks_of(
    profile: Profile, instances: InstanceSums | None, start_ns: int, tick_ns: int, n_ticks: int
) -> WindowTicks:
    """Make the series of a window from its profile and its instances' sums, both with one time slot per
    tick."""
    names, rows = profile.names, _Rows()
    n_sites, n_slots = len(names.sites), n_ticks
    sites = _sites(names)
    visits = {name: profile.visits[name].to_numpy() for name in ("site", "slot", "n", "calls", "failing_n")}
    where = visits["site"], visits["slot"]
    rows.add(_of_kind(FAIL, sites), *where, visits["n"], visits["failing_n"])
    rows.add(_of_kind(CALLS, sites), *where, visits["n"], visits["calls"])
    operations = [Name(OPERATION, "", "", name.text) for name in names.operations]
    operation = np.array([site.operation for site in names.sites], dtype=np.int64)[visits["site"]]
    calls = totals(operation * n_slots + visits["slot"], visits["calls"], len(operations) * n_slots)
    at = np.flatnonzero(calls)
    rows.add(operations, at // n_slots, at % n_slots, calls[at], np.zeros(len(at)))
    # Own time: mean of logs, and the distribution in coarse bins.
    votes = {name: profile.votes[name].to_numpy() for name in ("measure", "site", "slot", "bin", "n")}
    own = votes["measure"] == OWN_TIME
    site, slot, bins, n = (votes[name][own] for name in ("site", "slot", "bin", "n"))
    place = site.astype(np.int64) * n_slots + slot
    value = bins * BIN_LOG
    den, num, sq = (totals(place, n * power, n_sites * n_slots) for power in (1.0, value, value * value))
    at = np.flatnonzero(den)
    rows.add(_of_kind(TIME, sites), at // n_slots, at % n_slots, den[at], num[at], sq[at])
    slow = rows.codes(_of_kind(SLOW, sites))
    cells, code = np.unique(place << 16 | bins // COARSE, return_inverse=True)
    site, slot = np.divmod(cells >> 16, n_slots)
    rows.parts.append(rows_of(slow[site], slot, 0.0, totals(code, n, len(cells)), bin_=cells & 0xFFFF))
    _patterns(profile, rows, sites)
    requests, folded = _roots(profile, rows, n_slots), 0
    if instances is not None:
        _instances(instances, rows)
        folded = instances.folded
    series = np.concatenate(rows.parts)
    return WindowTicks(start_ns, tick_ns, n_ticks, tuple(rows.names), series, requests, folded)


def _sites(names: Names) -> list[Name]:
    """[sites] name of each call site's series, with an empty `kind`."""
    found = []
    for site in names.sites:
        called = names.operations[site.operation]
        caller = names.operations[site.caller].text if site.caller != NO_CALLER else "-"
        plain = called.text.partition("/")[2]
        found.append(Name("", called.component, plain, f"{called.text}{CALLER_MARK}{caller}"))
    return found


def _of_kind(kind: str, names: list[Name]) -> list[Name]:
    return [name._replace(kind=kind) for name in names]


def _patterns(profile: Profile, rows: _Rows, sites: list[Name]) -> None:
    """Add the series of call patterns; their denominator is the call site's number of calls
    (`denominator_of`)."""
    names = profile.names
    texts = [name.text for name in names.operations]
    patterns = {name: profile.patterns[name].to_numpy() for name in ("site", "pattern", "slot", "votes")}
    many = max(len(names.patterns), 1)
    pairs, code = np.unique(
        patterns["site"].astype(np.int64) * many + patterns["pattern"], return_inverse=True
    )
    named = []
    for pair in pairs.tolist():
        site, pattern = divmod(pair, many)
        children = ",".join(f"{texts[child.operation]}x{child.calls}" for child in names.patterns[pattern])
        of = f"{sites[site].of}{PATTERN_MARK}{children or '-'}"
        named.append(sites[site]._replace(kind=PATTERN, of=of))
    rows.add(named, code, patterns["slot"], np.ones(len(code)), patterns["votes"])


def _instances(found: InstanceSums, rows: _Rows) -> None:
    """Add the series of instances; the denominator of failing visits is the series of visits
    (`denominator_of`)."""
    named = [Name(INSTANCE, component, "", f"{component} on {host}") for component, host in found.instances]
    rows.add(named, found.instance, found.tick, found.den, found.slower, found.sq)
    fails = found.failing != 0
    if fails.any():
        instance, named_at = np.unique(found.instance[fails], return_inverse=True)
        failing = _of_kind(INSTANCE_FAIL, [named[one] for one in instance.tolist()])
        rows.add(failing, named_at, found.tick[fails], np.ones(int(fails.sum())), found.failing[fails])


def _roots(profile: Profile, rows: _Rows, n_slots: int) -> F8:
    """Add the series of root types (response times, failures) to `rows`; return the number of requests,
    float64[ticks]."""
    roots = profile.names.roots
    found = {n: profile.responses[n].to_numpy() for n in ("root", "slot", "bin", "n", "failed_n")}
    place, size = found["root"].astype(np.int64) * n_slots + found["slot"], len(roots) * n_slots
    value = found["bin"] * BIN_LOG
    n, num, sq = (
        totals(place, found["n"] * power, size) for power in (np.ones(len(value)), value, value * value)
    )
    failed = totals(place, found["failed_n"], size)
    root, slot = np.divmod(np.arange(size), n_slots)
    named = [Name("", text.partition("/")[0], text.partition("/")[2], text) for text in roots]
    rows.add(_of_kind(MEAN, named), root, slot, n, num, sq)
    rows.add(_of_kind(FAILURES, named), root, slot, n, failed)
    return totals(found["slot"], found["n"], n_slots)


_COLUMNS: Final = ("series", "tick", "bin", "den", "num", "sq")
_STORED: Final = {
    **dict.fromkeys(_COLUMNS, pa.float32()),  # as the ring adds them up
    **{"series": pa.int32(), "tick": pa.int16(), "bin": pa.int16()},
}


def _encode(ticks: WindowTicks) -> bytes:
    """Encode ticks as Parquet: `rows` as the table, all else as compressed metadata."""
    columns = {
        name: pa.array(ticks.rows[name].astype(_STORED[name].to_pandas_dtype()), _STORED[name])
        for name in _COLUMNS
    }
    head = {
        "start_ns": ticks.start_ns,
        "tick_ns": ticks.tick_ns,
        "n_ticks": ticks.n_ticks,
        "names": [list(name) for name in ticks.names],
        "requests": ticks.requests.tolist(),
        "folded": ticks.folded,
    }
    sink = pa.BufferOutputStream()
    told, table = b64encode(zlib.compress(json.dumps(head).encode())), pa.table(columns)
    # As metadata of the schema it would be in the file twice.
    how = {"write_statistics": False, "write_page_checksum": True, "store_schema": False}
    with pq.ParquetWriter(sink, table.schema, compression="zstd", **how) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({_HEAD: told.decode()})
    return bytes(sink.getvalue())


def _decode(data: pa.Buffer) -> WindowTicks | None:
    """Decode ticks written by `_encode`; None for other data."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        table, unpacked = file.read(), zlib.decompressobj()
        head = json.loads(unpacked.decompress(b64decode(file.metadata.metadata[_HEAD.encode()]), _MOST_HEAD))
        rows = np.empty(table.num_rows, dtype=ROW)
        for name in _COLUMNS:
            rows[name] = table[name].to_numpy()
        return WindowTicks(
            int(head["start_ns"]),
            int(head["tick_ns"]),
            int(head["n_ticks"]),
            tuple(Name(*name) for name in head["names"]),
            rows,
            np.array(head["requests"], dtype=np.float64),
            int(head["folded"]),
        )
    except (pa.ArrowException, zlib.error, ValueError, KeyError, TypeError, OSError):
        return None


def denominator_of(name: Name) -> Name | None:
    """Series whose number of events is the denominator of series `name`; None if `name` has its own."""
    if name.kind == SLOW:
        return name._replace(kind=TIME)
    if name.kind == PATTERN:
        return name._replace(kind=FAIL, of=name.of.partition(PATTERN_MARK)[0])
    if name.kind == INSTANCE_FAIL:
        return name._replace(kind=INSTANCE)
    if name.kind == CALLS:
        return Name(OPERATION, "", "", name.of.rpartition(CALLER_MARK)[2])
    return None


class Seen(NamedTuple):
    """Presence of an instance of a component: when it appeared, and for how long it has been missing."""

    since: int
    """First tick of the window in which the instance appeared."""
    windows: int = 0
    """Number of windows since the instance's last visit in which its component had requests."""
    visits: float = 0.0
    """Number of visits expected in `windows` windows if the instance had an equal share of its component's
    visits.
    """


@dataclass(slots=True)
class Ring:
    """Ring buffer of the values of all series: sums (den, num, sq) by tick over recent windows, and by hour
    over a longer time.

    Only ticks with requests have a column: `at` holds their numbers, counted from the epoch.
    """

    tick_ns: int
    names: list[Name] = field(default_factory=list)
    codes: dict[Name, int] = field(default_factory=dict)
    base: list[int] = field(default_factory=list)
    """[series] number of the series that provides `den`, the number of events, for each series; usually the
    series itself."""
    at: I8 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    requests: F8 = field(default_factory=lambda: np.zeros(0))
    ticks: Sums = field(default_factory=lambda: Sums())
    hour: I8 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """[hour columns] hours since the epoch, ascending."""
    hours: Sums = field(default_factory=lambda: Sums())
    slow: list[Rows] = field(default_factory=list)
    """Rows with `bin` >= 0 (distributions of own times), one array per window; `tick` counts from the
    epoch."""
    gone_windows: int = 3
    """Minimum number of windows in which an instance is missing, but not its component, before it counts as
    gone.
    """
    gone_visits: float = 32.0
    """Number of visits that a missing instance would have had with an equal share: from this number on it
    counts as gone.
    """
    gone_ticks: int = 1024
    """Number of ticks after which a missing instance counts as gone in any case; counted in windows where its
    component had requests."""
    instances: list[Rows] = field(default_factory=list)
    """Rows of instances, one array per window; `series` is an index into `instance_names`.

    Stored for as long as the ring's ticks, even after an instance is gone.
    """
    instance_names: Numbering[Name] = field(default_factory=Numbering)
    there: dict[Name, Seen] = field(default_factory=dict)
    """Instance -> its presence, for instances that are not gone; only instances in this mapping have
    series."""
    there_at: int = 0
    """Tick from which `there` is valid; earlier windows do not change it."""
    free: list[int] = field(default_factory=list)
    """Series numbers of instances that are gone, free for new instances."""

    def add_ticks(self, window: WindowTicks) -> list[int]:
        """Add a window's ticks with requests, without its hours; return the series numbers of instances that
        are gone, which new instances may reuse.
        """
        first, n_old = window.start_ns // self.tick_ns, len(self.at)
        gone = self._let_go(window, first) if first >= self.there_at else []
        codes, rows = self._codes(window, since=first), window.rows
        there = np.flatnonzero(window.requests > 0)
        column = np.full(window.n_ticks, -1)
        column[there] = n_old + np.arange(len(there))
        self.at = np.concatenate([self.at, first + there])
        self.requests = np.concatenate([self.requests, window.requests[there]])
        is_slow = rows["bin"] >= 0
        place = np.where(is_slow, -1, column[rows["tick"]])
        series = codes[rows["series"]]
        self.ticks.add(len(self.names), len(self.at), series, np.where(series < 0, -1, place), rows)
        if is_slow.any():
            slow = repack_fields(rows[["series", "tick", "bin", "num"]][is_slow])
            slow["series"] = codes[slow["series"]]
            slow["tick"] += first
            self.slow.append(slow)
        of_instance = np.array([name.kind in INSTANCES for name in window.names], dtype=np.bool_)
        mine = np.flatnonzero(of_instance[rows["series"]] & (place >= 0))
        if len(mine):
            numbers = [self.instance_names[n] if n.kind in INSTANCES else -1 for n in window.names]
            kept = rows[mine]
            kept["series"] = np.array(numbers)[kept["series"]]
            kept["tick"] += first
            self.instances.append(kept)
        return gone

    def _let_go(self, window: WindowTicks, first: int) -> list[int]:
        """Free the series numbers of instances that are gone as of `window`; return the freed numbers."""
        visits = dict[str, float]()  # of components: of their series, the one with most
        if self.there:
            den = totals(window.rows["series"], window.rows["den"], len(window.names)).tolist()
            for name, n in zip(window.names, den, strict=True):
                visits[name.component] = max(visits.get(name.component, 0.0), n)
        of_component = Counter(name.component for name in self.there)
        for name, (since, windows, n) in self.there.items():
            if name.component in visits:
                each = visits[name.component] / of_component[name.component]
                self.there[name] = Seen(since, windows + 1, n + each)
        for name in window.names:
            if name.kind == INSTANCE:
                self.there[name] = Seen(self.there[name].since if name in self.there else first)
        gone = [name for name, seen in self.there.items() if self._is_gone(seen, window.n_ticks)]
        for name in gone:
            del self.there[name]
        both = [name._replace(kind=kind) for name in gone for kind in (INSTANCE, INSTANCE_FAIL)]
        rows = [self.codes.pop(name) for name in both if name in self.codes]
        for row in rows:
            self.names[row], self.base[row] = _FREE, row
            self.ticks.cells[:, row] = 0
        self.free += rows
        return rows

    def _is_gone(self, seen: Seen, n_ticks: int) -> bool:
        is_missed = seen.visits >= self.gone_visits or seen.windows * n_ticks >= self.gone_ticks
        return seen.windows >= self.gone_windows and is_missed

    def name_there(self, names: Iterable[Name]) -> None:
        """Assign series numbers to the present instances in `names`, even if no window in the ring has values
        for them.
        """
        for name in names:
            if self._is_there(name):
                self._code(name)

    def _is_there(self, name: Name, since: int | None = None) -> bool:
        """True if an instance is present and had appeared by tick `since` (None: at any time)."""
        seen = self.there.get(name._replace(kind=INSTANCE)) if name.kind in INSTANCES else None
        return seen is not None and (since is None or seen.since <= since)

    def add_hours(self, window: WindowTicks) -> None:
        """Add the hours of a window, or of a day (`by_hour`), without instances."""
        codes = self._codes(window)
        rows = window.rows[codes[window.rows["series"]] >= 0]
        hour = (window.start_ns + rows["tick"] * window.tick_ns) // HOUR_NS
        for number in np.unique(hour):
            if not len(self.hour) or number > self.hour[-1]:
                self.hour = np.append(self.hour, number)
        place = np.where(rows["bin"] < 0, np.searchsorted(self.hour, hour), -1)
        self.hours.add(len(self.names), len(self.hour), codes[rows["series"]], place, rows)

    def _codes(self, window: WindowTicks, *, since: int | None = None) -> I8:
        """[series of a window] series number in the ring; -1 for instances that had not appeared by tick
        `since`.
        """
        codes = [
            self._code(name)
            if name.kind not in INSTANCES or (since is not None and self._is_there(name, since))
            else -1
            for name in window.names
        ]
        return np.array(codes, dtype=np.int64)

    def by_hour(self, day_ns: int) -> WindowTicks:
        """Hours of a day as a window with hourly ticks, from which `add_hours` restores exactly the same
        sums."""
        cells = self.hours.cells[:, : len(self.names), : len(self.hour)]
        series, place = np.nonzero(cells.any(axis=0))
        den, num, sq = cells[:, series, place].astype(np.float64)
        rows = rows_of(series, self.hour[place] - day_ns // HOUR_NS, den, num, sq)
        n_hours = NS_PER_DAY // HOUR_NS
        return WindowTicks(day_ns, HOUR_NS, n_hours, tuple(self.names), rows, np.zeros(n_hours))

    def sums(self, rows: I8, columns: slice | I8) -> F8:
        """float64[3, rows, columns]: denominator, numerator and sum of squares. rows: series numbers;
        columns: indices of ticks in the ring.
        """
        found = self.ticks.cells[:, rows][:, :, columns].astype(np.float64)
        found[0] = self.ticks.cells[0, np.asarray(self.base)[rows]][:, columns]
        return found

    def events(self, columns: I8) -> F8:
        """float64[series]: number of events, such as requests or calls, that are the denominator of each
        series, summed over ticks. columns: indices of the ticks in the ring."""
        events: F8 = self.ticks.cells[0, self.base][:, columns].sum(axis=1, dtype=np.float64)
        return events

    def hour_sums(self, past: int) -> tuple[I8, F8]:
        """Hourly sums before hour `past`: (int64[hours] hours since the epoch, float64[3, series, hours]
        denominator, numerator and sum of squares)."""
        n = int(np.searchsorted(self.hour, past))
        found = self.hours.cells[:, : len(self.names), :n].astype(np.float64)
        found[0] = self.hours.cells[0, self.base, :n]
        return self.hour[:n], found

    def _code(self, name: Name) -> int:
        code = self.codes.get(name)
        if code is None:
            if name.kind in INSTANCES and self.free:
                code = self.free.pop()
                self.names[code] = name
            else:
                code = len(self.names)
                self.names.append(name)
                self.base.append(code)
            self.codes[name] = code
            base = denominator_of(name)
            if base is not None:
                self.base[code] = self._code(base)
        return code

    def keep(self, needed: B1, first_hour: int) -> None:
        """Drop ticks where the mask `needed` is False, and hours before `first_hour`; deferred until at least
        a quarter of the columns can be dropped."""
        later = self.hour >= first_hour
        if needed.sum() * 4 <= len(needed) * 3:
            self.at, self.requests = self.at[needed], self.requests[needed]
            self.ticks.keep(needed)
            there = (part[np.isin(part["tick"], self.at)] for part in self.slow)
            self.slow = [part for part in there if len(part)]
            there = (part[np.isin(part["tick"], self.at)] for part in self.instances)
            self.instances = [part for part in there if len(part)]
            used = sorted({one for part in self.instances for one in np.unique(part["series"]).tolist()})
            numbers = np.full(len(self.instance_names), -1)
            numbers[used] = np.arange(len(used))
            for part in self.instances:
                part["series"] = numbers[part["series"]]
            names = [*self.instance_names]
            self.instance_names = Numbering({names[one]: new for new, one in enumerate(used)})
        if later.sum() * 4 <= len(later) * 3:
            self.hour = self.hour[later]
            self.hours.keep(later)


@dataclass(slots=True)
class Sums:
    """Denominators, numerators and sums of squares as float32[3, series, columns], in an array with spare
    capacity; float32 is precise enough for shares and means of logs."""

    cells: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros((3, 0, 0), dtype=np.float32))

    def add(self, n_series: int, n_columns: int, series: I8, column: I8, rows: Rows) -> None:
        """Add `rows` to the cells at (`series`, `column`); rows with a negative column are skipped."""
        room = self.cells.shape
        if n_series > room[1] or n_columns > room[2]:
            grown = [
                old if n <= old else n + n // 2
                for n, old in zip((n_series, n_columns), room[1:], strict=True)
            ]
            cells = np.zeros((3, *grown), dtype=np.float32)
            cells[:, : room[1], : room[2]] = self.cells
            self.cells = cells
        there = column >= 0
        flat = series[there] * self.cells.shape[2] + column[there]
        for cell, name in zip(self.cells, ("den", "num", "sq"), strict=True):
            np.add.at(cell.reshape(-1), flat, rows[name][there].astype(np.float32))

    def keep(self, needed: B1) -> None:
        """Drop columns. needed: [columns in use] mask of the columns to retain."""
        n = int(needed.sum())
        self.cells[:, :, :n] = self.cells[:, :, : len(needed)][:, :, needed]
        self.cells[:, :, n:] = 0
