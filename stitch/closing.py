"""Which requests are closed at a watermark, and which wait for more events.

A request closes

* when it is complete (`stitch.completeness`) and its last event (the end, for a span) lies `linger_ns` before
  the watermark: live ingestion only, a batch has no use for it;
* when its last event lies `idle_ns` before the watermark;
* when its first event lies `max_age_ns` before the watermark. It is *aged* then: INCOMPLETE.

Only the events' own times count. So where no more events come, a request closed early is the request closed
late, flags included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8
from schemas.config import StitchConfig
from stitch.columnar.chunks import whole

NEVER = np.int64(2**63 - 1)
"""First time of what has none; its last time is `-NEVER`."""


@dataclass(frozen=True, slots=True)
class Closing:
    """What a watermark does to the events at hand."""

    closed: B1
    """[events] the event's request is closed."""
    aged: B1
    """[events] closed by age while events still came in: the flow is incomplete."""


def event_times(events: pa.Table) -> tuple[I8, I8]:
    """[events] first and last time that each tells, ns; NEVER and -NEVER where it tells none."""
    start, end = whole(events["ts_ns"]), whole(events["end_ns"])
    if start.null_count == 0 and end.null_count == len(end):
        only: I8 = start.to_numpy(zero_copy_only=False)
        return only, only
    first = pc.fill_null(pc.coalesce(start, end), int(NEVER)).to_numpy(zero_copy_only=False)
    last = pc.fill_null(pc.max_element_wise(start, end), int(-NEVER)).to_numpy(zero_copy_only=False)
    return first, last


def idle_and_old(first: I8, last: I8, watermark_ns: int, config: StitchConfig) -> tuple[B1, B1]:
    """[requests] quiet for `idle_ns`, and open for `max_age_ns`; what has no time is neither."""
    # A watermark below the first instant of int64 plus a gap closes nothing, and must not wrap round.
    idle = (last > -NEVER) & (last <= max(watermark_ns - config.idle_ns, -int(NEVER)))
    old = (first < NEVER) & (first <= max(watermark_ns - config.max_age_ns, -int(NEVER)))
    return idle, old


def close_requests(
    request: I8, n_requests: int, events: pa.Table, watermark_ns: int, config: StitchConfig
) -> Closing:
    """Close requests, complete or not, by idle gap and age. `request` [events] codes. O(events).

    A request without any known time waits for the end of the input.
    """
    of_first, of_last = event_times(events)
    first = np.full(n_requests, NEVER)
    np.minimum.at(first, request, of_first)
    last = np.full(n_requests, -NEVER)
    np.maximum.at(last, request, of_last)
    idle, old = idle_and_old(first, last, watermark_ns, config)
    return Closing(closed=(idle | old)[request], aged=(old & ~idle)[request])
