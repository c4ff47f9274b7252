"""Settings of `flowdiff up`."""

from __future__ import annotations

from pydantic import Field

from schemas.config import Config


class UpSettings(Config):
    """Patience with the parts."""

    ready_seconds: float = Field(default=60.0, gt=0)
    """Time limit for each part to become ready; after that all parts are ended."""
    end_seconds: float = Field(default=30.0, gt=0)
    """Time that a process gets to shut down cleanly before it is killed."""
    deaths: int = Field(default=3, ge=0)
    """Number of deaths of a part within `deaths_seconds` after which it is started again; one more ends all
    parts.
    """
    deaths_seconds: float = Field(default=300.0, gt=0)
    """Time window in which deaths of a part are counted."""
