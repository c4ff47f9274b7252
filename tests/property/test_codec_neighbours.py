"""An item of JSON reads the same alone, beside sound ones and beside malformed ones, in messages of their own
and in one with them: also one whose objects name a member twice, or in two spellings.

Every codec reads sound JSON many at a time, and falls back to one by one beside what is not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from oracles.captured import messages
from oracles.codec_contract import CONFIG, Sound, assert_same, sound_payloads
from oracles.hostile_payloads import seed_payloads, small_payload
from oracles.mutants import restructured

from ingest.codecs.port import Decoded
from ingest.formats import codec_for
from schemas.rejects import Reject

ITEMS = 150
"""Of each form."""
TOGETHER = 10
"""Items that stand beside what is malformed, which has all of them read one by one anyway."""
MALFORMED = (
    b"5",
    b"{}",
    b'{"traceId":"AQ==","spanId":[]}',
    b'{"traceID":5}',
    b'{"ts":"soon"}',
    b'{"seq":"x","sample_rate":"often","links":"[]","params":"{}"}',
)
"""No item of any format, and JSON, so that it may stand in a list."""


@dataclass(frozen=True)
class Form:
    """Items in a message."""

    format: str
    item: Callable[[Path], bytes]
    """A sound one."""
    join: Callable[[list[bytes]], bytes]
    is_bare: bool = True
    """One is sent by itself, not in a list."""


def _listed(items: list[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def _first(format_: str, shared_data: Path) -> bytes:
    """The first span of a list."""
    return bytes(msgspec.json.decode(seed_payloads(shared_data)[format_], type=list[msgspec.Raw])[0])


FORMS = {
    "native": Form("native", lambda data: seed_payloads(data)["native"].split(b"\n")[0], b"\n".join),
    "otlp-json": Form(
        "otlp-json", lambda data: small_payload("otlp-json", seed_payloads(data)["otlp-json"]), b"\n".join
    ),
    "jaeger-json": Form("jaeger-json", partial(_first, "jaeger-json"), _listed),
    "jaeger-json of protobuf": Form(
        "jaeger-json", lambda data: messages(data / "kafka-captured", "jaeger-json")[0], _listed
    ),
    "zipkin": Form("zipkin", partial(_first, "zipkin"), _listed, is_bare=False),
}


EXAMPLES = {
    "native": [(b'"point":', b'"host":"a","host":"b","sample_rate":5e-000001,"point":')],
    "otlp-json": [
        (b'"name":', b'"name":"a","name":"b","x":'),
        (b'"name":', b'"traceState":"ot=th:8","trace_state":"ot=th:c","name":'),
        (b'"value":{', b'"value":{"intValue":"5","boolValue":true,"x":{},'),
        (b'"value":{', b'"value":{"arrayValue":{"values":[null]}},"x":{'),
        (b'"attributes":[', b'"attributes":[null,'),
    ],
    "jaeger-json": [(b'"operationName":', b'"operationName":"a","x":')],
    "jaeger-json of protobuf": [
        (b'"serviceName":', b'"serviceName":"a","service_name":"b","x":'),
        (b'"operationName":', b'"traceID":"1","spanID":"2","operationName":'),
    ],
    "zipkin": [(b'"name":', b'"name":5,"name":')],
}
"""What is written for what, once, in a sound item."""


@pytest.mark.parametrize("name", FORMS)
def test_an_item_reads_the_same_whatever_stands_beside_it(name: str, shared_data: Path) -> None:
    form, rng = FORMS[name], random.Random(name)
    codec, item = codec_for(form.format), form.item(shared_data)
    sound = sound_payloads(codec, form.join([item]), rng, 4)
    whole = [one.payload for one in sound]
    examples = [item.replace(*change, 1) for change in EXAMPLES[name]]
    assert item not in examples
    items = [one for one in [*examples, *restructured(item, rng, ITEMS)] if one.startswith(b"{")]
    payloads = [one if form.is_bare else form.join([one]) for one in items]
    alone = [codec.decode([payload], CONFIG) for payload in payloads]
    for payload, known in zip(payloads, alone, strict=True):
        # By itself: one that is malformed has all beside it read one by one.
        found = codec.decode([whole[0], whole[1], payload, *whole[2:]], CONFIG)
        _check(found, sound, {2: known})
    for first in range(0, len(items), TOGETHER):
        some = slice(first, first + TOGETHER)
        for before, after in (
            (MALFORMED, (b"[5", whole[0][:-1], *MALFORMED)),
            ((whole[0], b"{"), (*MALFORMED, *whole[1:])),
        ):
            together = [*before]
            places = {}
            for payload, known in zip(payloads[some], alone[some], strict=True):
                places[len(together)] = known
                together += [payload, MALFORMED[len(places) % len(MALFORMED)]]
            _check(codec.decode([*together, *after], CONFIG), sound, places)
        inside = [part for one in items[some] for part in (*MALFORMED, one)]
        found = codec.decode([form.join([*inside, *MALFORMED])], CONFIG)
        assert_same(found.events, [known.events for known in alone[some]])
        for number, known in enumerate(alone[some]):
            at = number * (len(MALFORMED) + 1) + len(MALFORMED)
            assert _of_item(found.rejects, at) == _of_item(known.rejects, None)


def _check(found: Decoded, sound: list[Sound], alone: dict[int, Decoded]) -> None:
    """What is found of each payload is what it gives alone, as far as it is not of the sound ones."""
    requests = [request for one in sound for request in one.events["request_id"].unique().to_pylist()]
    is_sound = pc.is_in(found.events["request_id"], pa.array(requests, pa.string()))
    assert_same(found.events.filter(pc.invert(is_sound)), [known.events for known in alone.values()])
    for payload, known in alone.items():
        rejects = [replace(reject, payload=0) for reject in found.rejects if reject.payload == payload]
        assert rejects == known.rejects


def _of_item(rejects: Sequence[Reject], item: int | None) -> list[Reject]:
    """The dead letters of one item, or all, but for their bytes: those of a list are written anew."""
    found = [
        replace(reject, item=0, raw=None, sha256="", size=0)
        for reject in rejects
        if item is None or reject.item == item
    ]
    # Of several spans of one document in an order of their own.
    return sorted(found, key=lambda reject: (reject.reason, reject.detail))
