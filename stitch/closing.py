"""Which requests are closed at a watermark, and which wait for more events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.config import StitchConfig
from stitch.columnar.chunks import whole

I8 = npt.NDArray[np.int64]
B1 = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Closing:
    """What a watermark does to the events at hand."""

    closed: B1
    """[events] the event's request is closed."""
    aged: B1
    """[events] closed by age while events still came in: the flow is incomplete."""


def close_requests(
    request: I8, n_requests: int, events: pa.Table, watermark_ns: int, config: StitchConfig
) -> Closing:
    """Close requests by the events' own times only. `request` [events] codes. O(events).

    A request closes when its last event (the end, for a span) lies `idle_ns` before the watermark, or its
    first one `max_age_ns`. A request without any known time waits for the end of the input.
    """
    start, end = whole(events["ts_ns"]), whole(events["end_ns"])
    first_time = pc.coalesce(start, end)
    last_time = pc.coalesce(pc.max_element_wise(start, end), first_time)
    never = np.int64(2**63 - 1)
    first = np.full(n_requests, never)
    np.minimum.at(first, request, pc.fill_null(first_time, int(never)).to_numpy(zero_copy_only=False))
    timed = last_time.is_valid().to_numpy(zero_copy_only=False)
    last = np.full(n_requests, -never)
    np.maximum.at(last, request[timed], last_time.drop_null().to_numpy(zero_copy_only=False))
    known = first != never
    idle = known & (last <= watermark_ns - config.idle_ns)
    old = known & (first <= watermark_ns - config.max_age_ns)
    return Closing(closed=(idle | old)[request], aged=(old & ~idle)[request])
