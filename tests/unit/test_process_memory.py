"""What lanes may hold of `live.memory`."""

from __future__ import annotations

import pytest

from flowdiff.live.memory import lanes_share
from flowdiff.settings.ingest_config import HeapSettings
from schemas.errors import ConfigError
from stitch.drivers.live.live_settings import LEAST_MEMORY_BYTES, LiveSettings

PROGRAM_BYTES = 120 * 2**20
SHARES = HeapSettings()


def test_what_settings_take_for_enough_is_enough() -> None:
    least = LiveSettings(memory_bytes=LEAST_MEMORY_BYTES)
    held = lanes_share(least.memory_bytes, PROGRAM_BYTES, SHARES)
    assert SHARES.least_held_bytes <= held < LEAST_MEMORY_BYTES - SHARES.buffers_bytes
    with pytest.raises(ConfigError, match=r"live\.memory is 352MB, and the process takes 170 MB") as refused:
        lanes_share(LEAST_MEMORY_BYTES, 170 * 2**20, SHARES)
    assert str(refused.value.remedy) == "Set live.memory to 384MB or more."
    assert lanes_share(384 * 2**20, 170 * 2**20, SHARES) >= SHARES.least_held_bytes


@pytest.mark.parametrize("megabytes", [0, 128, 351])
def test_less_is_refused_by_the_settings(megabytes: int) -> None:
    with pytest.raises(ValueError, match="352MB is the least that is enough"):
        LiveSettings(memory_bytes=megabytes * 2**20)
