"""Read the settings with which a lane last committed."""

from __future__ import annotations

from stitch.drivers.live.live_settings import LiveSettings, recorded_settings
from stitch.lake.chain import read_tail
from stitch.lake.store import Store


def lane_settings(store: Store, lane: int) -> LiveSettings:
    """Return the settings recorded by the lane's latest commit that records any; the defaults if no commit
    does. Raises LakeError."""
    configs = (link.record.config for link in reversed(read_tail(store, lane).records))
    return recorded_settings(next((config for config in configs if "stitch" in config), {}))
