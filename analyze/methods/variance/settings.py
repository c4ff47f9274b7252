"""Settings of `flowdiff variance`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from schemas.config import Config


class VarianceSettings(Config):
    """Order and detail of sources of variance."""

    sort: Literal["impact", "c2"] = "impact"
    """Order of categories: `impact`, those with C² above 1 first; or `c2` alone, as the paper ranks."""
    category: tuple[str, ...] = ()
    """Categories examined in detail, by a prefix of their key; default: those with the largest impact."""
    details: int = Field(default=5, ge=0)
    """Number of categories examined in detail where none is named."""
    by: Literal["edges", "sites"] = "edges"
    """Parts into which a category's variance is divided: edges of its graph, or call sites."""
    markers: Path | None = None
    """TOML file of known sources of variance: label, kind, owner, reason, expires."""
    advice_share: float = Field(default=0.1, gt=0, le=1)
    """Smallest share of its category's variance at which an edge may be recommended for instrumentation."""
    explained: int = Field(default=3, ge=0)
    """Number of recommendations, the largest first, whose fast and slow behaviour is compared by parameters.
    """
    change_ratio: float = Field(default=1.2, gt=1, le=1e6)
    """Smallest factor of change of a call site's variance between two samples that counts; 1.2 is a tenth of
    the standard deviation.
    """
