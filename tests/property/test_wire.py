"""The native reader of OTLP protobuf gives what the portable one gives, beside any other message."""

from __future__ import annotations

import itertools
import pickle
import random
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from oracles.captured import messages
from oracles.codec_contract import assert_same, check_contract
from oracles.fuzz_rounds import Rounds
from oracles.native_reader import needed_library
from oracles.otlp_spans import read_slowly

from ingest.codecs.otlp.otlp_proto import OtlpProtoCodec
from ingest.codecs.otlp.wire import fuzz, tables
from ingest.codecs.otlp.wire.build import FOLDER
from ingest.codecs.otlp.wire.library import Found, Library
from schemas.config import DecodeConfig

SECONDS = 1.0
CONFIG = DecodeConfig()
PORTABLE = OtlpProtoCodec(Found(None)).decode


@pytest.fixture
def library() -> Library:
    return needed_library()


def walked(library: Library, payloads: list[bytes]) -> list[bool]:
    """Whether each was read natively, with the defaults' bounds and no roles."""
    settings = tables.WalkSettings(
        [*tables.FIRST_WORDS], np.zeros(len(tables.FIRST_WORDS), np.int64), 7, 256, 256
    )
    return tables.walk(library, payloads, settings)[1].tolist()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_second_of_fuzz(library: Library, shared_data: Path, seed: int) -> None:
    seeds = [one.payload for one in Rounds("otlp-proto", shared_data).sound]
    end, left, polls = time.process_time() + SECONDS / 2, 0, 0
    for poll, setting, differs, _ in fuzz.compared(seed, seeds):
        assert not differs, f"settings {setting}: {differs}\n" + "\n".join(m.hex() for m in poll)
        left, polls = left + walked(library, poll).count(False), polls + len(poll)
        if time.process_time() > end:
            break
    assert polls > 20
    assert left < polls / 2  # what is left tests nothing


@pytest.mark.parametrize("name", ["otlp-proto", "otlp-proto-by-trace"])
@pytest.mark.parametrize("poll", [1, 20, 1000])
def test_captured_messages(library: Library, shared_data: Path, name: str, poll: int) -> None:
    captured = messages(shared_data / "kafka-captured", name)
    native = OtlpProtoCodec(Found(library)).decode
    for first in range(0, len(captured), poll):
        some = captured[first : first + poll]
        found = native(some, CONFIG)
        check_contract(found.events)
        assert not fuzz.difference(found, PORTABLE(some, CONFIG))
        assert_same(found.events, [read_slowly(some, CONFIG)])
    assert all(walked(library, captured))


def test_every_cut_of_a_message(library: Library) -> None:
    made = fuzz.Messages(5)
    native = OtlpProtoCodec(Found(library)).decode
    message = max((made.made() for _ in range(20)), key=lambda one: len(one) if len(one) < 1_500 else 0)
    cuts = [message[:end] for end in range(1, len(message))]
    assert not fuzz.difference(native(cuts, CONFIG), PORTABLE(cuts, CONFIG))


def test_a_message_beside_any_other(library: Library) -> None:
    native = OtlpProtoCodec(Found(library)).decode
    made = fuzz.Messages(11)
    for config in fuzz.CONFIGS[7:]:
        some = [*itertools.chain(*(made.poll() for _ in range(4)))]
        whole = native(some, config)
        assert not fuzz.difference(fuzz.alone(native, some, config), whole)
        random.Random(3).shuffle(some)
        assert sum(native(some, config).oddities.values()) == sum(whole.oddities.values())


def test_words_that_are_meant_to_collide_do_not_take_long(library: Library) -> None:
    # A seed that senders do not know: texts that collide for one seed do not for another.
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(5_000):
        spans.add(trace_id=bytes(15) + b"1", span_id=number.to_bytes(8, "big") or b"1", name=f"{number:064b}")
    (was_read,) = walked(library, [request.SerializeToString()])
    assert not was_read  # span 0 has an id of zeros
    del spans[0]
    assert walked(library, [request.SerializeToString()]) == [True]


def test_a_panic_is_an_error_and_a_wrong_array_too(library: Library) -> None:
    short = [np.zeros(0, np.uint8)] * 15
    with pytest.raises(TypeError, match="array 1 of walk"):
        library.call("walk", tables._WALK, *short)
    empty = [np.zeros(0, type_) for type_ in tables._WALK]
    with pytest.raises(RuntimeError, match="`walk` of the native library panicked"):
        library.call("walk", tables._WALK, *empty[:14])


def test_codecs_can_be_sent_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(OtlpProtoCodec)).name == "otlp-proto"


@pytest.mark.slow
def test_units_of_the_library(tmp_path: Path) -> None:
    if (cargo := shutil.which("cargo")) is None:
        pytest.skip("no cargo, so no native reader")
    command = [cargo, "test", "--locked", "--offline", "--quiet"]
    command += ["--manifest-path", str(FOLDER / "Cargo.toml"), "--target-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test result: ok" in done.stdout
