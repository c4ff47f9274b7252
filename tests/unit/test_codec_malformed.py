"""Malformed messages among many: they cost themselves, not their neighbours, and not much."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from oracles.codec_contract import CONFIG, assert_same
from oracles.fuzz_rounds import Rounds

from ingest.codecs.privacy import privacy_of
from ingest.codecs.values import protobuf
from schemas.config import ParamRules
from schemas.rejects import Reason

MANY = 400
TAKEN = b"\xfa\x80\x80\x80\x7f\x00"
"""A field with a number that there cannot be: protobuf refuses it, ptars skips it."""
BY_PTARS = ["otlp-proto"]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each call of ptars was given."""
    sizes: list[int] = []
    batch_of = protobuf._batch_of

    def counted(handler: object, messages: list[bytes]) -> object:
        sizes.append(len(messages))
        return batch_of(handler, messages)

    monkeypatch.setattr(protobuf, "_batch_of", counted)
    return sizes


@pytest.mark.parametrize("format_", BY_PTARS)
def test_a_call_of_ptars_for_each_malformed_message_and_two_for_all_others(
    format_: str, shared_data: Path, calls: list[int]
) -> None:
    rounds = Rounds(format_, shared_data)
    sound = [one.payload for one in rounds.sound[1:]]
    payloads = [sound[i % len(sound)] for i in range(MANY)]
    broken = random.Random(3).sample(range(MANY), MANY // 10)
    for index in broken:
        payloads[index] = payloads[index][:-1]
    calls.clear()
    decoded = rounds.codec.decode(payloads, CONFIG)
    assert {reject.payload for reject in decoded.rejects} == set(broken)
    assert len(calls) <= 2 + len(broken)


@pytest.mark.parametrize("format_", BY_PTARS)
def test_what_only_protobuf_refuses_keeps_its_place(format_: str, shared_data: Path) -> None:
    rounds = Rounds(format_, shared_data)
    first, odd, last = (one.payload for one in rounds.sound[1:4])
    decoded = rounds.codec.decode([first, odd + TAKEN, first[:-1], last], CONFIG)
    assert_same(decoded.events, [one.events for one in rounds.sound[1:4]])
    assert [reject.payload for reject in decoded.rejects] == [2]


FOREIGN = {
    "of another number": b"\x12\x02\x0a\x00",
    "a number": b"\x18\x01",
    "eight megabytes of numbers": b"\x10\x01" * 2**22,
}


@pytest.mark.parametrize("format_", ["otlp-proto", "zipkin-proto"])
def test_a_message_of_foreign_fields_is_told(format_: str, shared_data: Path) -> None:
    rounds = Rounds(format_, shared_data)
    sound = rounds.sound[1].payload
    # Of the fields that are known only the first holds spans; it need not come first.
    late = b"\x12\x00" + sound
    # An empty message in the field is no foreign one: a resource without spans, or a span without ids.
    payloads = [sound, *FOREIGN.values(), late, b"\x0a\x00"]
    decoded = rounds.codec.decode(payloads, CONFIG)
    told = {
        (reject.payload, reject.reason) for reject in decoded.rejects if reject.payload != len(payloads) - 1
    }
    assert told == {(place, Reason.WRONG_SHAPE) for place in range(1, 1 + len(FOREIGN))}
    assert_same(decoded.events, [rounds.sound[1].events] * 2)


@pytest.mark.parametrize(
    ("raw", "is_kept"),
    [
        (b"\xffset-cookie", False),
        (b"\xffSET_Cookie:", False),
        (b"\xffProxy_Authorization", False),
        (b"\xff\\U0070assword", False),
        (b"\xffuser.secret_KEY", False),
        (b"\xffsecretkey", True),
        (b"\xffpass-word", True),
        (b"\xff", True),
    ],
)
def test_names_are_found_in_bytes_in_any_spelling(raw: bytes, is_kept: bool) -> None:
    privacy = privacy_of(ParamRules(redact=("*.Secret-key",)))
    assert privacy.clean_raw(raw) == (raw if is_kept else None)
