"""Read how a lane made its flows: what the last commit that says so was configured with."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from schemas.config import StitchConfig
from stitch.lake.checkpoint import read_tail
from stitch.lake.store import Store


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """Of the stitcher."""

    stitch: StitchConfig
    params_share: float


def lane_settings(store: Store, lane: int) -> LaneSettings:
    """Defaults where no commit says, or one of a later version. Raises LakeError."""
    for link in reversed(read_tail(store, lane).records):
        told = link.record.config
        if "stitch" not in told:
            continue
        try:
            stitch = StitchConfig.model_validate(told["stitch"])
        except ValidationError:
            break
        share = told.get("params_share", 1.0)
        return LaneSettings(stitch, float(share) if isinstance(share, int | float) else 1.0)
    return LaneSettings(StitchConfig(), 1.0)
