"""Begin a lane and its streams: at the lake's last commit, or where settings say."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.source import CutBackError, GapError, LiveSource, Place, StreamId, TopicChangedError
from stitch.drivers.live.live_lane import LiveLane
from stitch.drivers.live.live_settings import LiveSettings
from stitch.lake.layout import LakeInfo
from stitch.lake.manifest import sealed_to_ns
from stitch.lake.store import Store


@dataclass(frozen=True, slots=True)
class LiveIdentity:
    """Who writes."""

    owner: str
    created_by: str


def open_lane(
    store: Store,
    info: LakeInfo,
    number: int,
    settings: LiveSettings,
    identity: LiveIdentity,
    cluster_id: str | None,
) -> LiveLane:
    """Take a lane over. Raises as LiveLane."""
    return LiveLane(
        store,
        info,
        number,
        settings,
        owner=identity.owner,
        created_by=identity.created_by,
        cluster_id=cluster_id,
        sealed_to_ns=sealed_to_ns(store),
    )


def start_stream(source: LiveSource, lane: LiveLane, stream: StreamId, *, accept_gaps: bool) -> Place:
    """Where a stream goes on. Raises StreamError unless gaps are accepted."""
    place = lane.place(stream)
    try:
        return source.start(stream, place)
    except (GapError, CutBackError, TopicChangedError) as error:
        if not accept_gaps:
            raise
        first = None if place is None or isinstance(error, TopicChangedError) else error.first
        return source.start(stream, None if place is None or first is None else Place(first, place.topic_id))
