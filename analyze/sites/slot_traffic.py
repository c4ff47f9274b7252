"""When requests began, as far as slots of a profile tell: for `silences` of samples that are statistics."""

from __future__ import annotations

import numpy as np

from analyze.population import Sample
from analyze.sites.profile import Profile
from analyze.sites.totals import totals
from analyze.stats.silences import Traffic


def slot_traffic(profile: Profile, sample: int, named: Sample) -> Traffic:
    """Slots of a sample that hold a request, as stretches in which requests began. O(rows)."""
    table = profile.responses
    slot = table["slot"].to_numpy()
    n = totals(slot, table["n"].to_numpy(), len(profile.slots))
    mine = [
        (one.start_ns, one.end_ns, at)
        for at, one in enumerate(profile.slots)
        if one.sample == sample and n[at] > 0
    ]
    bounds = np.array(sorted(mine), dtype=np.int64).reshape(-1, 3)
    used = np.isin(slot, bounds[:, 2])
    return Traffic(
        bounds[:, 0],
        bounds[:, 1],
        float(n[bounds[:, 2]].sum()),
        float(table["w"].to_numpy()[used].sum()),
        named.ranges or ((named.start_ns, named.end_ns),),
        named.recorded,
    )
