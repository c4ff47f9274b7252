"""What can be wrong with a stream, in words."""

from __future__ import annotations

from ingest.source import CutBackError, GapError, StreamId, TopicChangedError
from schemas.errors import InputError


def not_known(stream: StreamId) -> InputError:
    """Brokers do not tell of the topic: nothing is wrong with the stream as far as is known."""
    return InputError(
        f"Brokers do not tell the id of topic '{stream.topic}' at the moment.",
        remedy="Check the topic and the right to describe it, and try again.",
    )


def other_topic(stream: StreamId) -> TopicChangedError:
    """The topic is not the one whose offsets were noted."""
    return TopicChangedError(
        f"Topic '{stream.topic}' was deleted and made anew: offsets of the old one say nothing of it.",
        stream=stream,
        remedy="Read it into a lake of its own, or under another name.",
    )


def gap(stream: StreamId, position: int, first: int) -> GapError:
    """Retention went past a position."""
    return GapError(
        f"{stream.name}: {first - position} messages from {position} on are gone, the log begins at {first}.",
        stream=stream,
        remedy="--accept-gaps goes on behind them; a longer retention keeps it from happening.",
        first=first,
    )


def cut_back(stream: StreamId, position: int, first: int | None) -> CutBackError:
    """The log at a position is another one than the one that was read."""
    where = "behind what was read" if first is None else f"to {first}"
    return CutBackError(
        f"{stream.name}: the log was cut back {where}, and was read to {position} (an unclean election of a "
        "leader, or a disk restored from a backup?).",
        stream=stream,
        first=first,
        remedy="Compare the topic with the lake; --accept-gaps goes on with what the log has there now.",
    )
