"""Faults F1 to F15, and changes that are no faults (negatives), by name, with their mechanisms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf

from schemas.arrays import B1, I8
from schemas.errors import ConfigError


class FaultMechanism(Enum):
    """Mechanism by which a fault changes the service, the workload or the trace; each at most once in a
    run."""

    MDS_CONFIG = "metadata writes go to the data node"
    SMALL_IO = "the client uses smaller I/O"
    PREFETCH = "server-driven metadata prefetching"
    TREE_GROWTH = "B-tree inserts take more iterations as it grows"
    SPIN = "spin in the storage node's write path"
    PAUSES = "the client machine pauses"
    ONE_BUCKET = "hash table with one bucket"
    READDIR_LOOP = "READDIR starts over for every entry"
    WRITE_THROUGH = "one storage node writes through"
    STALE_BACKOFF = "back-off on a stale location"
    NOISY_HOST = "noisy neighbour on the data node"
    LOAD = "more load"
    ERROR_BURST = "bursts of I/O errors with retries"
    SEQUENTIAL_READ = "parallel reads become sequential"
    SAMPLING = "other sampling rate"
    CLOCK_SKEW = "a host's clock is off"
    SPAN_LOSS = "records are lost"
    RENAME = "a deploy renames a label"


@dataclass(frozen=True, slots=True)
class Injection:
    """Mechanism that is active in [start_ns, end_ns) of the run."""

    mechanism: FaultMechanism
    severity: float
    start_ns: float
    cause: int
    """Number of the cause in the run, to which the truth attributes the effect."""
    mode: str = ""
    end_ns: float = inf

    def acts(self, t_ns: float) -> bool:
        """True if the mechanism is active at a time of the run."""
        return self.start_ns <= t_ns < self.end_ns and self.severity != 0.0

    def acts_at(self, times_ns: I8) -> B1:
        """[times] True where the mechanism is active."""
        return (times_ns >= self.start_ns) & (times_ns < self.end_ns) & (self.severity != 0.0)


Injections = Mapping[FaultMechanism, Injection]


def injected(injections: Injections, mechanism: FaultMechanism) -> Injection:
    """Injection of a mechanism among `injections`; if there is none, an injection that is never active."""
    return injections.get(mechanism) or Injection(mechanism, 0.0, inf, -1)


MAX_CAUSES = 3
"""Maximum number of causes of a run: the truth simulates every subset of the causes (shares are Shapley
values), at most 2³ runs."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A named change of the system, the workload or the tracing."""

    name: str
    about: str
    parts: tuple[tuple[FaultMechanism, str, float], ...]
    """Causes of the fault: (mechanism, mode, factor by which the fault's severity is multiplied)."""
    severity: float
    """Default severity of the fault, in `unit`."""
    unit: str
    """Unit of the severity: what a severity of 1 means."""
    workload: str
    """Name of the workload in which the fault is visible; for faults from the papers, the workload used
    there."""
    negative: bool = False
    """True if the service is unchanged: an analysis should find no mutation."""


@dataclass(frozen=True, slots=True)
class FaultCause:
    """One mechanism of one fault in a run."""

    name: str
    injection: Injection


def _one(
    name: str,
    mechanism: FaultMechanism,
    severity: float,
    unit: str,
    workload: str,
    about: str,
    *,
    mode: str = "",
    negative: bool = False,
) -> Fault:
    return Fault(name, about, ((mechanism, mode, 1.0),), severity, unit, workload, negative)


_M = FaultMechanism
_ALL = (
    _one("F1-mds-config", _M.MDS_CONFIG, 0.9, "share of metadata writes", "postmark-large",
         "metadata writes go to the data node with its default encoding (NSDI 8.2)"),
    _one("F2-small-io", _M.SMALL_IO, 4.0, "factor by which client I/O shrinks", "iozone",
         "the client reads and writes 4 KB where the server prefers 16 KB: read-modify-writes (NSDI 8.3)"),
    _one("F3-prefetch", _M.PREFETCH, 1.0, "share of eligible metadata calls", "linux-build",
         "metadata calls prefetch 30-60 items under locks; their code path is 20 % slower (NSDI 8.4)"),
    _one("F4-btree-growth", _M.TREE_GROWTH, 1.0, "9 more iterations at the end of the run", "postmark-large",
         "inserts take more and more B-tree iterations; linear data structures (NSDI 8.5)"),
    _one("F5-spin", _M.SPIN, 500.0, "µs", "sfs97",
         "spin in the storage nodes' write path, before the reply (NSDI 8.6)"),
    _one("F5-spin-absorbed", _M.SPIN, 500.0, "µs", "sfs97",
         "the same, overlapping the log device's wait in 70 % of the writes", mode="absorbed"),
    _one("F5-spin-broad", _M.SPIN, 500.0, "µs", "sfs97",
         "the same on an edge of 500 ± 300 µs (severity 0 is its reference)", mode="broad"),
    _one("F6-client-pause", _M.PAUSES, 0.35, "pause per time of work", "ursa-minor-build",
         "the client machine pauses and revalidates afterwards; the service is unchanged (NSDI 8.7)"),
    _one("F7-one-bucket", _M.ONE_BUCKET, 1.0, "25 ns per request so far", "linux-build",
         "a hash table with one bucket: handle look-ups grow with time (HOT 2.2)"),
    _one("F8-readdir-loop", _M.READDIR_LOOP, 1.0, "extra rounds per entry", "sfs97",
         "READDIR goes through its entries again for every entry (HOT)"),
    _one("F9-write-through", _M.WRITE_THROUGH, 1.0, "disk writes waited for", "sfs97",
         "one storage node lost its cache battery and waits for the disk (TritonSort)"),
    _one("F10-stale-backoff", _M.STALE_BACKOFF, 0.01, "share of storage reads", "linux-build",
         "a stale location costs a back-off of one second (HBase)"),
    _one("F11-noisy-host", _M.NOISY_HOST, 0.5, "slow-down of the data node", "sfs97",
         "a neighbour slows everything on one machine"),
    _one("F12-load", _M.LOAD, 0.5, "additional load", "sfs97",
         "requests arrive faster; the service is unchanged but for its queues"),
    _one("F13-error-burst", _M.ERROR_BURST, 0.3, "share of storage calls in a burst", "sfs97",
         "bursts of I/O errors (10 s of every 30 s), retried"),
    _one("F14-sequential-read", _M.SEQUENTIAL_READ, 1.0, "on or off", "sfs97",
         "blocks of one READ are fetched one after another"),
    Fault("F15-two-faults", "F1 and a 500 µs spin (F5) at once",
          ((_M.MDS_CONFIG, "", 0.9), (_M.SPIN, "", 500.0)), 1.0, "F1 at 0.9 and F5 at 500", "postmark-large"),
    Fault("N1-same", "nothing changes but the seed", (), 0.0, "none", "sfs97", True),
    _one("N2-load", _M.LOAD, 0.3, "additional load (may be negative)", "sfs97",
         "the load differs by 30 %", negative=True),
    _one("N3-sampling", _M.SAMPLING, 2.0, "factor by which sampling drops", "sfs97",
         "the sampling rate changes", negative=True),
    _one("N4-clock-skew", _M.CLOCK_SKEW, 5.0, "ms", "sfs97",
         "the metadata server's clock is ahead", negative=True),
    _one("N5-span-loss", _M.SPAN_LOSS, 0.03, "share of records", "sfs97",
         "records are lost on the way", negative=True),
    _one("N6-rename", _M.RENAME, 1.0, "on or off", "sfs97",
         "a deploy renames a trace point of the metadata server", negative=True),
)  # fmt: skip

FAULTS: dict[str, Fault] = {fault.name: fault for fault in _ALL}

TRACING_ONLY = frozenset((_M.SAMPLING, _M.CLOCK_SKEW, _M.SPAN_LOSS, _M.RENAME))
"""Mechanisms that only change how a run is reported."""


def find_fault(name: str) -> Fault:
    """Fault by its name, its number (`F1`), or an unambiguous prefix of its name (`F5-spin-b`)."""
    if name in FAULTS:
        return FAULTS[name]
    near = [f for f in FAULTS if f.startswith(f"{name}-")] or [f for f in FAULTS if f.startswith(name)]
    if len(near) != 1:
        raise ConfigError(f"no fault is called {name!r}.", remedy=f"Choose one of {', '.join(FAULTS)}.")
    return FAULTS[near[0]]


def plan_causes(
    chosen: Sequence[tuple[Fault, float | None, float]], end_s: float | None = None
) -> list[FaultCause]:
    """Causes of a run from (fault, severity or None for its default, start in seconds of the run).

    end_s: second of the run at which all faults are repaired; None: they last. Raises `ConfigError` on
    negative severities (but for load), an end before a start or without a fault, more than MAX_CAUSES causes,
    and two causes with one mechanism.
    """
    if end_s is not None and not chosen:
        raise ConfigError("there is no fault that ends.", remedy="Name one, or leave out the end.")
    end_ns = inf if end_s is None else end_s * 1e9
    causes: list[FaultCause] = []
    for fault, severity, start_s in chosen:
        if not start_s * 1e9 < end_ns:  # or one is no number
            raise ConfigError(f"{fault.name} begins at {start_s:g} s and ends at {end_s:g} s.")
        level = fault.severity if severity is None else severity
        for mechanism, mode, relative in fault.parts:
            least = -0.9 if mechanism is FaultMechanism.LOAD else 0.0
            if level < least:
                raise ConfigError(f"severity {level} of {fault.name} is below {least}.")
            name = fault.name if len(fault.parts) == 1 else f"{fault.name}/{mechanism.name.lower()}"
            injection = Injection(mechanism, level * relative, start_s * 1e9, len(causes), mode, end_ns)
            causes.append(FaultCause(name, injection))
    mechanisms = [c.injection.mechanism for c in causes]
    if len(set(mechanisms)) < len(mechanisms):
        raise ConfigError("two faults of a run use the same mechanism.", remedy="Run them separately.")
    if sum(m not in TRACING_ONLY for m in mechanisms) > MAX_CAUSES:
        raise ConfigError(f"more than {MAX_CAUSES} causes in one run.", remedy="Use fewer faults.")
    return causes
