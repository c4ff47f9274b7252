"""Request messages cut into smaller ones of the same spans, without parsing the spans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ingest.codecs.values.nested import runs_of_pieces
from ingest.codecs.values.proto_messages import message_classes

_LEVELS = message_classes(
    "flowdiff.otlp",
    {
        "Request": "1 resource_spans *bytes",
        # What comes once is repeated here too: a field that was written twice stays as it was.
        "Resource": "1 resource *bytes; 2 scope_spans *bytes",
        "Scope": "1 scope *bytes; 2 spans *bytes",
    },
)
"""The three outer levels, each with the levels below it as bytes."""
_Request, _Resource, _Scope = (_LEVELS[name] for name in ("Request", "Resource", "Scope"))


def cut_request(payload: bytes, part_bytes: int) -> Iterator[bytes]:
    """Messages with the spans of `payload`, in their order; each of about `part_bytes`, or of one span.

    The resource of a part is added to its size. Raises google.protobuf.message.DecodeError where an outer
    level is malformed, maybe after some parts.
    """
    if len(payload) <= part_bytes:
        yield payload
        return
    for blocks in runs_of_pieces(_Request.FromString(payload).resource_spans, part_bytes):
        if len(blocks[0]) <= part_bytes:
            yield _Request(resource_spans=blocks).SerializeToString()
            continue
        resource = _Resource.FromString(blocks[0])
        for scopes in runs_of_pieces(resource.scope_spans, part_bytes):
            if len(scopes[0]) <= part_bytes:
                yield _message(resource, scopes)
                continue
            for spans in runs_of_pieces(_Scope.FromString(scopes[0]).spans, part_bytes):
                yield _message(resource, [_Scope(spans=spans).SerializeToString()])


def count_spans(payload: bytes) -> int:
    """How many spans a message has. Raises google.protobuf.message.DecodeError."""
    return sum(
        len(_Scope.FromString(scope).spans)
        for block in _Request.FromString(payload).resource_spans
        for scope in _Resource.FromString(block).scope_spans
    )


def _message(resource: Any, scopes: list[bytes]) -> bytes:
    block = _Resource(resource=resource.resource, scope_spans=scopes).SerializeToString()
    message: bytes = _Request(resource_spans=[block]).SerializeToString()
    return message
