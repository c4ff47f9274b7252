"""Settings of `flowdiff variance`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from schemas.config import Config


class VarianceSettings(Config):
    """Order and detail of sources of variance."""

    sort: Literal["impact", "c2"] = "impact"
    """Order of categories: impact, those with C² above 1 first; or C² alone, as the paper ranks."""
    category: tuple[str, ...] = ()
    """Categories to look into, by the beginning of their key; default: those of the largest impact."""
    details: int = Field(default=5, ge=0)
    """Number of categories that are looked into where none is named."""
    by: Literal["edges", "sites"] = "edges"
    """Parts of a category that is looked into: edges of its graph, or sites."""
    markers: Path | None = None
    """TOML file of what is known of sources of variance: label, kind, owner, reason, expires."""
    advice_share: float = Field(default=0.1, gt=0, le=1)
    """An edge with this share of its category's variance may be advised to be instrumented."""
    explained: int = Field(default=3, ge=0)
    """Pieces of advice for which parameters are compared with the two behaviours, the largest first."""
    change_ratio: float = Field(default=1.2, gt=1, le=1e6)
    """Two samples: smallest change of a call site's variance that counts, as a factor; 1.2 is a tenth of the
    standard deviation."""
