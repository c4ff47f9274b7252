"""Hours of live ingestion in minutes: the driver over a real disk, a log and a clock in memory.

`make soak HOURS=3`. What `soak.py` cannot tell in half an hour: whether lanes, commits and what is remembered
grow with the number of commits. After a third, the slope of resident memory (Theil-Sen) is told.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

if __name__ == "__main__":
    sys.path[:1] = [str(parent) for parent in Path(__file__).resolve().parents[1:3]]

from chaos.soak import GROWTH
from oracles.live_process import SETTINGS, World, requests
from scipy.stats import theilslopes

from schemas.windows import NS_PER_MINUTE
from stitch.drivers.live.live_settings import LiveSettings
from stitch.lake.fsck import check
from stitch.lake.store import LocalStore, Store

REQUESTS_A_SECOND = 0.5
SAMPLE_S = 300
REMEMBERED_NS = 5 * NS_PER_MINUTE
"""Of closed requests, and of segments for repairs: past it, memory is to stay."""


def _remembering_little() -> LiveSettings:
    stitch = SETTINGS.stitch.model_copy(update={"max_age_ns": REMEMBERED_NS})
    return SETTINGS.model_copy(update={"keep_events_ns": REMEMBERED_NS, "stitch": stitch})


@dataclass
class DiskWorld(World):
    """A world whose lake lies in a folder."""

    settings: LiveSettings = field(default_factory=_remembering_little)
    folder: Path = field(default_factory=Path)

    @property
    def store(self) -> Store:
        return LocalStore.at(self.folder)


def resident_mb() -> float:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096 / 2**20


def main() -> int:
    """The run; 0 if memory stays and the lake is sound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=3)
    hours = parser.parse_args().hours
    seconds = 3_600 * hours
    with tempfile.TemporaryDirectory() as name:
        sent = requests(int(REQUESTS_A_SECOND * seconds), partitions=2, spread_s=seconds)
        world = DiskWorld(sent, folder=Path(name))
        world.start("process")
        begun_ns, samples = world.now_ns, [(0.0, 0.0)]
        for _ in world.turns("process"):
            at_s = (world.now_ns - begun_ns) / 1e9
            if at_s >= samples[-1][0] + SAMPLE_S:
                gc.collect()
                samples.append((at_s, resident_mb()))
                if len(samples) % 6 == 1:
                    print(f"{at_s / 3_600:.1f} h: {samples[-1][1]:.1f} MB", flush=True)
        world.processes["process"].stop()
        findings = check(world.store)
        missing = world.expected().flows.num_rows - len(world.published())
    warm = [(at_s / 3_600, mb) for at_s, mb in samples if at_s > seconds / 3]
    slope, _, low, high = theilslopes([mb for _, mb in warm], [at for at, _ in warm])
    print(
        f"{hours:g} h, {len(sent):,} messages: {warm[0][1]:.1f} MB after warming up, {warm[-1][1]:.1f} MB "
        f"at the end; slope {slope:+.1f} MB an hour ({low:+.1f} to {high:+.1f}); "
        f"{missing} missing, {findings}"
    )
    rise = slope * (warm[-1][0] - warm[0][0])
    return 0 if not findings and missing == 0 and rise <= GROWTH * warm[0][1] else 1


if __name__ == "__main__":
    sys.exit(main())
