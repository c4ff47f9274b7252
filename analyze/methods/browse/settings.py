"""Settings of `flowdiff browse`."""

from __future__ import annotations

from pydantic import Field

from schemas.config import Config


class BrowseSettings(Config):
    """Bounds of the sections of a browsed period."""

    modes: int = Field(default=8, ge=1, le=20)
    """Modes of the density that are looked into at most, the most prominent."""
    bins: int = Field(default=96, ge=8, le=400)
    """Parts of the axis of response times by which a range can be chosen; valleys between modes are added."""
    schedules: int = Field(default=6, ge=0, le=20)
    """Most typical requests drawn: of the category with most total time, then of each mode's first."""
    times: int = Field(default=120, ge=10, le=1000)
    """Parts that the period is cut into for what happened by time."""
    seed: int = Field(default=0, ge=0)
    """Seed of permutations, where two periods are compared with each other."""
    entries: int = Field(default=3, ge=1, le=20)
    """Components at which requests come in that are shown by time, those of the most requests."""
