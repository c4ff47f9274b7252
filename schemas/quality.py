"""Quality flags of a flow: one bit each, stored in `flows.quality` (int32)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag
from typing import Final


class Quality(IntFlag):
    """Reasons for which a flow may differ from the program's behaviour (`MEANINGS`). Zero is a clean flow."""

    ORPHAN = 1 << 0
    INCOMPLETE = 1 << 1
    """More than max(1, 5 %) orphans, or closed before it was complete. Excluded from tests, but counted."""
    NO_END = 1 << 2
    MULTI_ROOT = 1 << 3
    """Several nodes without a parent: a synthetic `?root` node precedes them."""
    CYCLE = 1 << 4
    CAPPED = 1 << 5
    """More events than `max_events_per_flow`: only the earliest are kept."""
    NEGATIVE = 1 << 6
    """A node precedes its predecessor on the same host: clamped when latencies are read."""
    LOST_STRAND = 1 << 7
    UNCLOSED = 1 << 8
    UNTIMED = 1 << 9
    CONFLICT = 1 << 10
    MIXED_SEQ = 1 << 11
    MIXED_RATE = 1 << 12


# Flows with one of these are counted, shown as a data-quality finding, and left out of every test.
UNTESTABLE = Quality.INCOMPLETE | Quality.CYCLE | Quality.CAPPED | Quality.MULTI_ROOT

# Flags that mean that an event of the flow was never delivered.
SOMETHING_MISSING = (
    Quality.ORPHAN
    | Quality.INCOMPLETE
    | Quality.NO_END
    | Quality.MULTI_ROOT
    | Quality.LOST_STRAND
    | Quality.UNCLOSED
)


MEANINGS: Final[Mapping[Quality, str]] = {
    Quality.ORPHAN: "a span's parent is missing; it was attached to another. Kept in tests",
    Quality.INCOMPLETE: "many spans are missing, or the end. Kept out of tests",
    Quality.NO_END: "no end record; the response is the last record seen. Kept in tests",
    Quality.MULTI_ROOT: "several nodes without a parent. Kept out of tests",
    Quality.CYCLE: "parents in a circle, which was cut. Kept out of tests",
    Quality.CAPPED: "more events than the limit; the rest is missing. Kept out of tests",
    Quality.NEGATIVE: (
        "a node is recorded before the one it follows, on the same host: mostly clock grain of microseconds. "
        "That latency counts as 0. Kept in tests; harmless as long as it is small beside the response"
    ),
    Quality.LOST_STRAND: "a split or join names a breadcrumb without records. Kept in tests",
    Quality.UNCLOSED: "a strand neither joined nor ended, or went on after. Kept in tests",
    Quality.UNTIMED: "a span without start or duration; its relatives lent theirs. Kept in tests",
    Quality.CONFLICT: "one id came with different contents; one of them was kept. Kept in tests",
    Quality.MIXED_SEQ: "only some records of a breadcrumb have seq; time orders it. Kept in tests",
    Quality.MIXED_RATE: "events disagree on the sampling rate; the smallest holds. Kept in tests",
}
"""Quality flag -> its meaning in one sentence, and its effect on a comparison."""
