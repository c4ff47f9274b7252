"""Settings of `flowdiff browse`."""

from __future__ import annotations

from pydantic import Field

from schemas.config import Config


class BrowseSettings(Config):
    """Bounds of the sections of a browsed period."""

    modes: int = Field(default=8, ge=1, le=20)
    """Maximum number of modes of the response time density that are examined, the most prominent first."""
    bins: int = Field(default=96, ge=8, le=400)
    """Number of bins of the response time axis at which a range can start or end; valleys between modes are
    added.
    """
    schedules: int = Field(default=6, ge=0, le=20)
    """Maximum number of typical requests drawn: one of the category with most total time, then one of each
    mode.
    """
    times: int = Field(default=120, ge=10, le=1000)
    """Number of time slots into which the period is divided in charts over time."""
    seed: int = Field(default=0, ge=0)
    """Seed of permutations when two periods are compared."""
    entries: int = Field(default=3, ge=1, le=20)
    """Number of entry components shown over time, those with most requests."""
