"""Whether a comparison fails a gate (CI): the exit code of `flowdiff compare`, decided here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from analyze.report.outcome import Outcome
from schemas.errors import ConfigError
from schemas.windows import parse_duration_ns

_PERCENT = re.compile(r"^(\d+(?:\.\d+)?)\s*%$")


class FailOn(StrEnum):
    """Mutations that fail a gate."""

    MUTATIONS = "mutations"
    STRUCTURAL = "structural"
    RESPONSE_TIME = "response-time"
    NEVER = "never"


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


def fails(outcome: Outcome, on: FailOn, floor: Floor) -> bool:
    """Whether something of the named kind reaches the floor, a share of the first sample's.

    Decided on all that was found: the report lists the best of each direction, and what it leaves out may be
    larger than what it lists of the other, or all there is of a kind.
    """
    if on is FailOn.NEVER:
        return False
    least = floor.least_us(outcome.report.samples[0].total_us)
    return any(
        abs(found.us) >= least
        for found in outcome.weighed
        if on is FailOn.MUTATIONS or found.kind == on.value
    )
