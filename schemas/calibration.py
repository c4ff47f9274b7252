"""Result of calibrating a lake: comparisons of ordinary periods with each other."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from schemas.config import Config


class CalibrationSettings(Config):
    """Settings for pairing ordinary times."""

    pairs: int = Field(default=50, ge=1, le=10_000)
    """Pairs to compare."""
    reference_windows: int = Field(default=3, ge=1, le=1_000)
    """Windows of a reference, one after the other."""
    problem_windows: int = Field(default=1, ge=1, le=1_000)
    """Windows of a problem period, one after the other."""
    gap_windows: int = Field(default=24, ge=0, le=10_000)
    """Most windows between the two: how far back people look for a reference."""
    history_windows: int = Field(default=48, ge=0, le=1_000)
    """Most windows of history beside a pair, the nearest in time; 0 for none."""
    seed: int = 0
    """Seed of the choice of pairs."""


class CalibrationRecord(Config):
    """Content of one file under `calibration/`."""

    version: Literal[1] = 1
    created_at: str
    """ISO 8601, UTC."""
    created_by: str
    method: str
    settings: dict[str, Any]
    """Settings of the method; those left at `auto` as given."""
    refine: dict[str, Any]
    """Settings of the refinement."""
    chosen: CalibrationSettings
    start_ns: int
    end_ns: int
    """Range that pairs were chosen from, ns since the epoch."""
    windows: int
    """Number of steady windows that pairs were chosen from."""
    unsteady: int
    """Number of windows excluded because of an obvious event in or around them."""
    pairs: int
    """Pairs compared: as many as requested, or all that exist."""
    pairs_with_findings: int
    findings: dict[str, int]
    """False findings over all pairs, by kind."""
    verdicts: dict[str, int]
    """Number of pairs by outcome of the verdict."""
    requests0: int
    requests1: int
    """Median number of requests of a reference and of a problem period."""

    @property
    def a_pair(self) -> float:
        """Mean number of false findings per pair."""
        return sum(self.findings.values()) / self.pairs

    @property
    def sentence(self) -> str:
        """One-sentence summary for a report."""
        total = sum(self.findings.values())
        kinds = ", ".join(
            f"{n} {kind}" for kind, n in sorted(self.findings.items(), key=lambda item: (-item[1], item[0]))
        )
        found = f"{total} false finding{'s' if total != 1 else ''}"
        found += f" ({self.a_pair:.2f} a pair: {kinds})" if total else ""
        return (
            f"In {self.pairs} pair{'s' if self.pairs != 1 else ''} of ordinary times of this lake "
            f"(about {self.requests0} requests against {self.requests1}, seed {self.chosen.seed}) "
            f"these settings gave {found}."
        )
