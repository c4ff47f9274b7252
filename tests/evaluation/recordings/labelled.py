"""Recordings of real systems with labelled faults, as a folder holds them: `cases.json` and its files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schemas.periods import parse_period

NS_PER_HOUR = 3_600 * 10**9
MOST_APART_NS = 2 * NS_PER_HOUR
"""Quiet stretches further apart are not held against each other."""

Visible = Literal["visible", "invisible", "unclear"]
"""Whether an independent look at the spans found any effect at the service."""

_VISIBLE: dict[bool | None, Visible] = {True: "visible", False: "invisible", None: "unclear"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One labelled fault."""

    id: str
    service: str
    """The truth."""
    type: str
    problem: str
    """Period, ISO range."""
    reference: str | None
    """Just before it; None where nothing was recorded."""
    visible: Visible


@dataclass(frozen=True, slots=True)
class Recording:
    """One recording and what is known of it."""

    name: str
    """Short name: that of the file without suffixes."""
    file: Path
    quiet: tuple[str, ...]
    """Periods without a fault, ISO ranges in time order."""
    faults: tuple[Fault, ...]

    def history(self, *taken: str | None) -> tuple[str, ...]:
        """The quiet stretches that share no instant with any of `taken`."""
        return tuple(
            stretch
            for stretch in self.quiet
            if not any(period is not None and share(stretch, period) for period in taken)
        )

    def quiet_pairs(self, most: int | None = None) -> tuple[tuple[str, str], ...]:
        """All pairs of quiet stretches at most MOST_APART_NS apart, the earlier first; or so many of them,
        evenly spaced."""
        found = tuple(
            (one, other)
            for at, one in enumerate(self.quiet)
            for other in self.quiet[at + 1 :]
            if bounds(other)[0] - bounds(one)[1] <= MOST_APART_NS
        )
        return found if most is None else found[:: max(1, len(found) // most)][:most]


def bounds(text: str) -> tuple[int, int]:
    """`[start, end)` of an ISO range, ns since the epoch."""
    period = parse_period(text, now_ns=0)
    return period.start_ns, period.end_ns


def share(one: str, other: str) -> bool:
    """Whether two ranges have an instant in common."""
    (a, b), (c, d) = bounds(one), bounds(other)
    return a < d and c < b


def read_recordings(folder: Path) -> list[Recording]:
    """What `folder/cases.json` lists. Raises OSError where it is missing, KeyError where it is another."""
    listed = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    return [
        Recording(
            name=entry["recording"].split(".")[0],
            file=folder / entry["recording"],
            quiet=tuple(sorted(entry["quiet"], key=bounds)),
            faults=tuple(
                Fault(
                    case["id"],
                    case["service"],
                    case["type"],
                    case["problem"],
                    case["reference"],
                    _VISIBLE[case["visible"]],
                )
                for case in entry["cases"]
            ),
        )
        for entry in listed
    ]
