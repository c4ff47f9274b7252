"""Tell whether a live run read all there is."""

from __future__ import annotations

from stitch.drivers.live.watch import LiveStatus


def is_read(status: LiveStatus) -> bool:
    """Whether every stream was taken to its end, as far as that is known."""
    streams = [stream for lane in status.lanes for stream in lane.streams]
    return bool(streams) and all(s.end is not None and s.position >= s.end for s in streams)
