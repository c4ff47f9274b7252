"""Whether a comparison fails a gate (CI): the exit code of `flowdiff compare`, decided here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from schemas.errors import ConfigError
from schemas.report import Comparison, Mutation, MutationKind
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

    def counts(self, mutation: Mutation, comparison: Comparison) -> bool:
        """Whether a mutation is large enough."""
        least = max(self.us, self.share * comparison.reference.total_us)
        return abs(mutation.contribution_us) >= least


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


def fails(comparison: Comparison, on: FailOn, floor: Floor) -> bool:
    """Whether a mutation of the named kind reaches the floor.

    The model lists the largest; what it leaves out is smaller than all of them.
    """
    if on is FailOn.NEVER:
        return False
    kinds = set(MutationKind) if on is FailOn.MUTATIONS else {MutationKind(on.value)}
    return any(m.kind in kinds and floor.counts(m, comparison) for m in comparison.mutations)
