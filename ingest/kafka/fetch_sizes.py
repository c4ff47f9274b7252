"""Choose how much is read of a partition at a time, by the memory that there is."""

from __future__ import annotations

from typing import Final, NamedTuple

FETCH_BYTES: Final = 4 * 2**20
"""Of a partition in one fetch: 1.5 times as fast as the usual megabyte; more only costs memory."""
LEAST_FETCH_BYTES: Final = 2**19
POLL_BYTES: Final = 16 * 2**20
FETCH_SHARE: Final = 192
"""One part in so many of the memory is enough for a fetch: what is fetched is packed to a tenth."""
POLL_SHARE: Final = 96
"""One part in so many is enough for a poll: its events take ten times as much, and some polls are on their
way at once."""


class FetchSizes(NamedTuple):
    """Bytes of one partition."""

    fetch_bytes: int = FETCH_BYTES
    """As the broker stores them."""
    poll_bytes: int = POLL_BYTES
    """A poll takes batches until it has so many bytes, unpacked."""


USUAL_SIZES: Final = FetchSizes()


def fetch_sizes(memory_bytes: int) -> FetchSizes:
    """Choose sizes for a budget of memory."""
    return FetchSizes(
        max(LEAST_FETCH_BYTES, min(FETCH_BYTES, memory_bytes // FETCH_SHARE)),
        min(POLL_BYTES, memory_bytes // POLL_SHARE),
    )
