"""The cases: the published table, further faults, negatives, and their targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analyze.refine.settings import Level

Group = Literal["published", "fault", "negative"]
Split = Literal["runs", "creates"]


@dataclass(frozen=True, slots=True)
class Figures:
    """What the papers report of a case; None where they do not."""

    results: int
    top10_pct: float | None
    false_positive_pct: float | None
    coverage_pct: float | None


@dataclass(frozen=True, slots=True)
class Target:
    """What robust mode is to reach; None where there is none."""

    top10_pct: float | None = None
    false_positive_pct: float | None = None
    coverage_pct: float | None = None
    first_rank: int | None = None
    results: float | None = None
    """At most."""
    explained_error_points: float | None = 10.0


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the evaluation."""

    key: str
    title: str
    group: Group
    workload: str
    fault: str
    severity: float | None
    rule: str
    threshold: int = 50
    """Structural threshold of the papers for this row, at the papers' size."""
    paper: Figures | None = None
    target: Target | None = None
    base_severity: float | None = None
    """The reference runs with the fault at this severity (where it changes the workload, not the service)."""
    split: Split = "runs"
    """runs: one run without and one with the fault. creates: the first and the last CREATEs of one run."""
    level: Level = "L0"
    shown: str = "scaled"
    """Threshold of the row in the tables: scaled to the size where structure is what changed; 50, as
    published, where every structural result is false and a small threshold would only show noise."""
    simulation: str = ""
    """Rows that look at the same runs in another way share this; empty: the key."""

    @property
    def paper_size(self) -> int:
        """Traced requests of the papers' runs, or as many as comparable ones."""
        return PAPER_SIZE[self.workload]


PAPER_SIZE = {
    "sfs97": 210_669,
    "linux-build": 145_167,
    "postmark-large": 131_113,
    "iozone": 30_000,
    "ursa-minor-build": 60_000,
}
"""NSDI Table 1. The papers do not give the number for the last two; the simulated ones are of a size at which
their few categories are large."""

CREATES = 1_000
"""CREATEs of each period in NSDI 8.5."""

_PREFETCH = Target(90, 10, 95, 1)
_SPIN = Target(100, 3, 98, 1, 1)

PUBLISHED = (
    Case("8.2", "MDS configuration", "published", "postmark-large", "F1-mds-config", None, "mds-config",
         50, Figures(128, 100, 2, 70), Target(100, 2, 90, 1, 3)),
    Case("8.3", "read-modify-writes", "published", "iozone", "F2-small-io", None, "read-modify-write",
         50, Figures(3, 100, 0, 100), Target(100, 0, 100, 1)),
    Case("8.4", "MDS prefetch, SM 50", "published", "linux-build", "F3-prefetch", None, "prefetch",
         50, Figures(7, 29, 71, 93), _PREFETCH),
    Case("8.4-sm10", "MDS prefetch, SM 10", "published", "linux-build", "F3-prefetch", None, "prefetch",
         10, Figures(16, 70, 56, 96), _PREFETCH, simulation="8.4"),
    Case("8.5", "CREATE behaviour", "published", "postmark-large", "F4-btree-growth", None, "create",
         10, Figures(11, 40, 64, None), Target(90, 10, 90, 1), split="creates"),
    Case("8.6-100", "spin of 100 µs", "published", "sfs97", "F5-spin", 100.0, "spin",
         50, Figures(17, 0, 100, 0), Target(100, 5, 90, 1), shown="50"),
    Case("8.6-500", "spin of 500 µs", "published", "sfs97", "F5-spin", 500.0, "spin",
         50, Figures(166, 100, 6, 92), _SPIN, shown="50"),
    Case("8.6-1000", "spin of 1 ms", "published", "sfs97", "F5-spin", 1000.0, "spin",
         50, Figures(178, 100, 7, 93), _SPIN, shown="50"),
    Case("8.6-zoom", "spin of 1 ms, zoomed out", "published", "sfs97", "F5-spin", 1000.0, "spin",
         50, Figures(178, None, None, 66), Target(None, None, 85), level="L3", simulation="8.6-1000",
         shown="50"),
    Case("8.7", "periodic spikes", "published", "ursa-minor-build", "F6-client-pause", None, "extra-requests",
         50, Figures(1, None, None, None), Target(results=0, explained_error_points=None)),
)  # fmt: skip


def _fault(
    key: str,
    title: str,
    workload: str,
    fault: str,
    rule: str = "any",
    *,
    base_severity: float | None = None,
) -> Case:
    return Case(
        key,
        title,
        "fault",
        workload,
        fault,
        None,
        rule,
        target=Target(),
        base_severity=base_severity,
        shown="50" if fault.startswith("F5-") else "scaled",
    )


FAULTS = (
    _fault("F5-absorbed", "500 µs spin, 70 % absorbed", "sfs97", "F5-spin-absorbed"),
    _fault("F5-broad", "500 µs spin on a broad edge", "sfs97", "F5-spin-broad", base_severity=0.0),
    _fault("F7", "hash table with one bucket", "linux-build", "F7-one-bucket"),
    _fault("F8", "READDIR loop", "sfs97", "F8-readdir-loop"),
    _fault("F9", "slow storage host (write-through)", "sfs97", "F9-write-through"),
    _fault("F10", "stale location, back-off 1 s for 1 %", "linux-build", "F10-stale-backoff", "tail"),
    _fault("F11", "noisy neighbour on one host", "sfs97", "F11-noisy-host"),
    _fault("F13", "error bursts with retries", "sfs97", "F13-error-burst"),
    _fault("F14", "parallel reads become sequential", "sfs97", "F14-sequential-read"),
    _fault("F15", "two faults at once", "postmark-large", "F15-two-faults"),
)


def _negative(key: str, title: str, fault: str, severity: float | None = None) -> Case:
    target = Target(results=0.1, explained_error_points=None)
    return Case(key, title, "negative", "sfs97", fault, severity, "nothing", target=target)


NEGATIVES = (
    _negative("A/A", "nothing changed", "N1-same"),
    _negative("N2-more", "load +30 %", "N2-load", 0.3),
    _negative("N2-less", "load -30 %", "N2-load", -0.3),
    _negative("F12", "load +50 %", "F12-load", 0.5),
    _negative("N3", "sampling rate halved", "N3-sampling"),
    _negative("N4", "clock of the MDS 5 ms ahead", "N4-clock-skew"),
    _negative("N5", "3 % of the records lost", "N5-span-loss"),
    _negative("N6", "label renamed by a deploy", "N6-rename"),
)

CASES = {case.key: case for case in (*PUBLISHED, *FAULTS, *NEGATIVES)}
"""By key."""


def spin_case(delay_us: float) -> Case:
    """A point of the sweep over the size of the delay."""
    key = f"8.6-{delay_us:g}"
    if key in CASES:
        return CASES[key]
    return Case(
        key,
        f"spin of {delay_us:g} µs",
        "fault",
        "sfs97",
        "F5-spin",
        delay_us,
        "spin",
        target=Target(),
        shown="50",
    )


def case_of(key: str) -> Case:
    """A case by key, points of the delay sweep included. Raises KeyError."""
    if key in CASES:
        return CASES[key]
    prefix, _, delay = key.partition("-")
    if prefix != "8.6":
        raise KeyError(key)
    return spin_case(float(delay))
