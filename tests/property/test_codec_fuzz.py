"""Garbage in: nothing escapes, nothing is lost beside it, and every row that comes out keeps the contract.

The seeds are fixed; `make fuzz` draws fresh ones (`fuzz_codecs.py`).
"""

from __future__ import annotations

import gzip
import random
import resource
from pathlib import Path

import pyarrow as pa
import pytest
from oracles.hostile_payloads import (
    BATCH,
    CONFIG,
    MESSAGES,
    NASTY,
    check_batch,
    check_contract,
    hostile_messages,
    more_seeds,
    mutants,
    seed_payloads,
)

from ingest.files import decode_file
from ingest.formats import codec_for, format_names
from schemas.rejects import REJECT_SCHEMA, Reason

MUTANTS_PER_FORMAT = 1_300
MUTANTS_OF_OTHERS = 200
MESSAGES_PER_FORMAT = 3_000
"""Times 9 and times 3: more than 20,000 inputs."""
MEMORY_MB = 300


@pytest.fixture(scope="module")
def seeds(shared_data: Path) -> dict[str, bytes]:
    return seed_payloads(shared_data)


@pytest.mark.parametrize("format_", format_names())
def test_mutants_do_not_escape_nor_harm_their_neighbours(
    format_: str, seeds: dict[str, bytes], shared_data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    codec, seed = codec_for(format_), seeds[format_]
    alone = codec.decode([seed], CONFIG)
    assert alone.events.num_rows > 0
    assert not alone.rejects
    number = format_names().index(format_)
    inputs = [
        *NASTY,
        *mutants(seed, random.Random(number), MUTANTS_PER_FORMAT),
        *hostile_messages(format_, number, MESSAGES_PER_FORMAT),
    ]
    for other in more_seeds(shared_data, format_):
        inputs += mutants(other, random.Random(number), MUTANTS_OF_OTHERS)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = sum(check_batch(codec, seed, inputs[i : i + BATCH]) for i in range(0, len(inputs), BATCH))
    assert refused > len(inputs) // 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < MEMORY_MB * 1024
    assert capfd.readouterr().err == ""


def test_enough_is_tried() -> None:
    assert MUTANTS_PER_FORMAT * len(format_names()) + MESSAGES_PER_FORMAT * len(MESSAGES) >= 20_000


@pytest.mark.parametrize("format_", [None, *format_names()])
def test_damaged_files_give_events_or_rejects(
    format_: str | None, seeds: dict[str, bytes], tmp_path: Path
) -> None:
    rng = random.Random(7)
    proto = seeds["otlp-proto"]
    whole = [
        *seeds.values(),
        gzip.compress(seeds["native"], mtime=0),
        pa.compress(seeds["native"], "zstd", asbytes=True),
    ]
    whole += [
        len(proto).to_bytes(4, "big") + proto,
        bytes([len(proto) % 128 | 128, len(proto) // 128]) + proto,
    ]
    path = tmp_path / "damaged"
    reasons: set[str] = set()
    for content in [*NASTY, *whole, *(m for seed in whole for m in mutants(seed, rng, 25))]:
        path.write_bytes(content)
        for batch in decode_file(path, format_, CONFIG, chunk_bytes=rng.choice((50, 700, 1 << 20))):
            check_contract(batch.events)
            assert batch.rejects.schema.equals(REJECT_SCHEMA)
            reasons.update(batch.rejects["reason"].to_pylist())
    assert reasons <= {*Reason}
    assert {Reason.BAD_COMPRESSION, Reason.EMPTY} <= reasons
    assert (Reason.UNKNOWN_FORMAT in reasons) == (format_ is None)
