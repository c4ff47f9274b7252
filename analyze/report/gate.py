"""Whether a comparison passes a gate (CI): the exit code of `flowdiff compare`, decided here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from analyze.report.outcome import Outcome, Weighed
from schemas.errors import ConfigError
from schemas.windows import parse_duration_ns

ANY: Final = "any"
NEVER: Final = "never"
WORSE: Final = "worse"
_ALL: Final = (ANY, "findings", "mutations")
"""Words for whatever the method finds."""

_PERCENT = re.compile(r"^(\d+(?:\.\d+)?)\s*%$")


class GateCode(IntEnum):
    """Exit codes of a comparison that was made; 2 is an error."""

    PASSED = 0
    CHANGED = 1
    """Something that counts was found."""
    UNSURE = 3
    """Nothing was, but that is not certain, or there is a change that nothing explains."""


@dataclass(frozen=True, slots=True)
class FailOn:
    """What fails a gate."""

    kinds: frozenset[str] | None = None
    """Kinds of what a method weighs; None: all."""
    worse: bool = False
    """What is for the better does not."""

    def counts(self, found: Weighed) -> bool:
        """Whether something matters."""
        return (self.kinds is None or found.kind in self.kinds) and not (self.worse and found.better)


def parse_fail_on(words: Sequence[str], known: Sequence[str]) -> FailOn:
    """`any` (also `findings`, `mutations`), `never`, `worse`, kinds out of `known`. Raises ConfigError."""
    if strange := [word for word in words if word not in (*_ALL, WORSE, NEVER, *known)]:
        raise ConfigError(
            f"--fail-on {strange[0]}: the method does not look for that.",
            remedy=f"Write one of: {', '.join((*_ALL, WORSE, *known, NEVER))}.",
        )
    if NEVER in words:
        if len({*words}) > 1:
            raise ConfigError("--fail-on never stands alone.")
        return FailOn(frozenset())
    kinds = frozenset(words) - {WORSE}
    return FailOn(None if not kinds or kinds.intersection(_ALL) else kinds, worse=WORSE in words)


@dataclass(frozen=True, slots=True)
class Floor:
    """Smallest |contribution| that counts: in µs, or as a share of the reference's summed response time."""

    us: float = 0.0
    share: float = 0.0

    def least_us(self, reference_total_us: float) -> float:
        """The smallest |contribution| that counts, µs, where the reference took that long in sum."""
        return max(self.us, self.share * reference_total_us)


def parse_floor(text: str) -> Floor:
    """`500ms`, `2s`: summed response time. `5%`: of that of the reference. Raises ConfigError."""
    percent = _PERCENT.match(text.strip())
    if percent is not None:
        return Floor(share=float(percent[1]) / 100)
    try:
        return Floor(us=parse_duration_ns(text) / 1000)
    except ConfigError:
        raise ConfigError(
            f"'{text}' is not a contribution.",
            remedy="Write summed response time (500ms, 2s) or a share (5%).",
        ) from None


def gate_code(outcome: Outcome, on: FailOn, floor: Floor) -> GateCode:
    """Whether something of the kinds asked for reaches the floor, a share of the first sample's.

    Decided on all that was found: the report lists the best of each direction, and what it leaves out may be
    larger than what it lists of the other, or all there is of a kind. What is no matter of time has no floor.
    """
    least = floor.least_us(outcome.report.samples[0].total_us)

    def counts(found: Weighed) -> bool:
        return on.counts(found) and (found.us is None or abs(found.us) >= least)

    counted = [found for found in outcome.weighed if counts(found)]
    if any(found.sure for found in counted):
        return GateCode.CHANGED
    return GateCode.UNSURE if counted else GateCode.PASSED
