"""Settings of paper mode: tests and ranking."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.config import Config

Variant = Literal["text", "released"]
Distance = Literal["raw", "normalized"]
_Ranking = Literal["nsdi", "tr"]


class PaperSettings(Config):
    """Paper mode: Spectroscope as its text says, or as its released source does."""

    variant: Variant = "text"
    sm_threshold: int = Field(default=50, ge=1)
    """Change of a category's request count from which it is a structural mutation or a precursor."""
    alpha: float = Field(default=0.05, ge=0, le=1)
    """Significance level of a KS test, without correction for the number of tests, as published."""
    min_requests: int = Field(default=10, ge=1)
    """Number of values in both periods that a test needs to exceed (the papers' large categories); `text`
    ranking only.
    """
    one_to_n: bool = True
    """Require that a candidate precursor lost at least as many requests as the mutation gained."""
    distance: Distance | None = None
    """Edit distance: plain, or normalized by the longer sequence; None: that of the ranking's paper (`nsdi`
    plain, `tr` normalized, `released` normalized).
    """
    ranking: _Ranking = "nsdi"
    """Formula that orders mutations."""

    @property
    def resolved_distance(self) -> Distance:
        """`distance`, or the default of the variant."""
        if self.distance is not None:
            return self.distance
        return "raw" if self.variant == "text" and self.ranking == "nsdi" else "normalized"
