"""Garbage in: nothing escapes, nothing is lost beside it, and every row that comes out keeps the contract.

The seeds are fixed; `make fuzz` draws fresh ones (`fuzz_codecs.py`).
"""

from __future__ import annotations

import gzip
import random
import resource
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from oracles.codec_contract import CONFIG, check_contract
from oracles.fuzz_rounds import Rounds
from oracles.hostile_payloads import NASTY, seed_payloads
from oracles.mutants import mutants

from ingest.codecs.port import Decoded
from ingest.files import decode_file
from ingest.formats import codec_for, format_names
from schemas.config import DecodeConfig
from schemas.events import EVENT_SCHEMA
from schemas.rejects import REJECT_SCHEMA, Reason

INPUTS_PER_FORMAT = 2_500
"""Times 9: more than 20,000 inputs."""
MEMORY_MB = 300


@pytest.fixture(scope="module")
def seeds(shared_data: Path) -> dict[str, bytes]:
    return seed_payloads(shared_data)


@pytest.mark.parametrize("format_", format_names())
def test_mutants_do_not_escape_nor_harm_their_neighbours(
    format_: str, shared_data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rounds = Rounds(format_, shared_data)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tried = refused = 0
    for batch in rounds.batches(format_names().index(format_), INPUTS_PER_FORMAT):
        tried += len(batch)
        refused += rounds.check(batch)
    assert tried > INPUTS_PER_FORMAT * 0.9
    assert refused > tried // 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < MEMORY_MB * 1024
    assert capfd.readouterr().err == ""


def test_enough_is_tried() -> None:
    assert INPUTS_PER_FORMAT * 0.9 * len(format_names()) >= 20_000


class _Cheat:
    """A codec that spoils what another has decoded, if something was refused."""

    name = "cheat"

    def __init__(self, format_: str, spoil: Callable[[Decoded], Decoded]) -> None:
        self._codec, self._spoil = codec_for(format_), spoil

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        decoded = self._codec.decode(payloads, config)
        return self._spoil(decoded) if len(decoded.rejects) > 1 else decoded


def _without_last_reject(decoded: Decoded) -> Decoded:
    refused = Counter(decoded.refused)
    refused[decoded.rejects[-1].reason.value] -= 1
    return replace(decoded, rejects=decoded.rejects[:-1], refused=+refused)


CHEATS: dict[str, Callable[[Decoded], Decoded]] = {
    "loses the last event": lambda d: replace(d, events=d.events.slice(0, d.events.num_rows - 1)),
    "loses the first event": lambda d: replace(d, events=d.events.slice(1)),
    "swaps events": lambda d: replace(d, events=d.events.take(pa.array(range(d.events.num_rows)[::-1]))),
    "loses a dead letter": _without_last_reject,
    "counts a dead letter only": lambda d: replace(d, rejects=d.rejects[:-1]),
    "moves a dead letter": lambda d: replace(
        d, rejects=[*d.rejects[:-1], replace(d.rejects[-1], payload=d.rejects[-1].payload - 1)]
    ),
    "moves a time": lambda d: replace(
        d, events=d.events.set_column(8, EVENT_SCHEMA.field(8), pc.add(d.events["ts_ns"], 1))
    ),
}


@cache
def _passed(format_: str, shared_data: Path) -> tuple[Rounds, list[bytes]]:
    """Rounds of a format, and a batch that its codec passes."""
    rounds = Rounds(format_, shared_data)
    batch = rounds.inputs(1, 400)[:300]
    rounds.check(batch)
    return rounds, batch


@pytest.mark.parametrize("format_", ["native", "otlp-proto", "zipkin"])
@pytest.mark.parametrize("cheat", CHEATS)
def test_a_codec_that_cheats_is_caught(cheat: str, format_: str, shared_data: Path) -> None:
    rounds, batch = _passed(format_, shared_data)
    rounds.codec = _Cheat(format_, CHEATS[cheat])
    with pytest.raises(AssertionError):
        rounds.check(batch)


@pytest.mark.parametrize("format_", [None, *format_names()])
def test_damaged_files_give_events_or_rejects(
    format_: str | None, seeds: dict[str, bytes], tmp_path: Path
) -> None:
    rng = random.Random(7)
    proto = seeds["otlp-proto"]
    whole = [
        *seeds.items(),
        ("native", gzip.compress(seeds["native"], mtime=0)),
        ("native", pa.compress(seeds["native"], "zstd", asbytes=True)),
        ("otlp-proto", len(proto).to_bytes(4, "big") + proto),
        ("otlp-proto", bytes([len(proto) % 128 | 128, len(proto) // 128]) + proto),
    ]
    damaged = [content for _, content in whole]
    for of, content in whole:
        # A format that is given refuses most of the others' at once.
        damaged += mutants(content, rng, 25 if format_ in (None, of) else 5)
    path = tmp_path / "damaged"
    reasons: set[str] = set()
    for content in [*NASTY, *damaged]:
        path.write_bytes(content)
        for batch in decode_file(path, format_, CONFIG, chunk_bytes=rng.choice((50, 700, 1 << 20))):
            check_contract(batch.events)
            assert batch.rejects.schema.equals(REJECT_SCHEMA)
            reasons.update(batch.rejects["reason"].to_pylist())
    assert reasons <= {*Reason}
    assert {Reason.BAD_COMPRESSION, Reason.EMPTY} <= reasons
    assert (Reason.UNKNOWN_FORMAT in reasons) == (format_ is None)
