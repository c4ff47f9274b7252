"""Result of calibrating a lake: comparisons of ordinary periods with each other."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from schemas.config import Config


class CalibrationSettings(Config):
    """Settings for pairing ordinary times."""

    pairs: int = Field(default=50, ge=1, le=10_000)
    """Number of pairs of periods to compare."""
    reference_windows: int = Field(default=3, ge=1, le=1_000)
    """Number of consecutive windows in a reference period."""
    problem_windows: int = Field(default=1, ge=1, le=1_000)
    """Number of consecutive windows in a problem period."""
    gap_windows: int = Field(default=24, ge=0, le=10_000)
    """Maximum number of windows between reference and problem: how far back people look for a reference."""
    history_windows: int = Field(default=48, ge=0, le=1_000)
    """Maximum number of history windows beside a pair, the nearest in time; 0: no history."""
    seed: int = 0
    """Seed of the choice of pairs."""


class CalibrationRecord(Config):
    """Content of one file under `calibration/`."""

    version: Literal[1] = 1
    created_at: str
    """Time at which the record was made, ISO 8601, UTC."""
    created_by: str
    method: str
    settings: dict[str, Any]
    """Settings of the method, name -> value; `auto` stands where a setting was left at `auto`."""
    refine: dict[str, Any]
    """Settings of the refinement, name -> value."""
    chosen: CalibrationSettings
    start_ns: int
    end_ns: int
    """End of the range that pairs were chosen from, exclusive, ns since the epoch (start: `start_ns`)."""
    windows: int
    """Number of steady windows that pairs were chosen from."""
    unsteady: int
    """Number of windows excluded because of an obvious event in or around them."""
    pairs: int
    """Number of pairs compared: as many as requested, or all that exist."""
    pairs_with_findings: int
    findings: dict[str, int]
    """Kind of finding -> number of false findings, summed over all pairs."""
    verdicts: dict[str, int]
    """Outcome of the verdict -> number of pairs."""
    requests0: int
    requests1: int
    """Median number of requests of a problem period (`requests0`: of a reference)."""

    @property
    def a_pair(self) -> float:
        """Mean number of false findings per pair of periods."""
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
