"""Messages of protobuf that were meant for somebody else."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.values.proto_messages import message_classes
from schemas.rejects import Reason, Reject

_FIRST_TAG = 0x0A
"""Of a message in field 1."""
_FirstField = message_classes("flowdiff.foreign", {"FirstField": "1 bodies *bytes"})["FirstField"]


def refuse_foreign(payloads: Sequence[bytes], indexes: list[int], detail: str, log: RejectLog) -> list[int]:
    """The payloads that hold field 1, in which all is that is read, or are malformed; the others are logged.

    To protobuf a message of which it knows no field is an empty one: what was sent to the wrong topic would
    be no span, and no dead letter. What exporters write begins with the field itself.
    """
    foreign = [i for i in indexes if payloads[i][0] != _FIRST_TAG and _lacks_first_field(payloads[i])]
    for index in foreign:
        log.add(Reject(Reason.WRONG_SHAPE, detail, payloads[index], index))
    return indexes if not foreign else sorted(set(indexes).difference(foreign))


def _lacks_first_field(payload: bytes) -> bool:
    try:
        return not _FirstField.FromString(payload).bodies
    except DecodeError:
        return False
