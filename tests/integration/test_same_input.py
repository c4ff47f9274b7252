"""The same spans as JSON or protobuf, shuffled, duplicated, cut in other files: the same analysis."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flowdiff.__main__ import build_app
from ingest.codecs.otlp_json import OtlpJsonCodec
from ingest.encode_otlp import length_prefixed, otlp_messages
from schemas.config import DecodeConfig

FILES = ("before", "after-recommendation-delay")


def flowdiff(*arguments: str) -> str:
    result = CliRunner().invoke(build_app(["import", "compare"]), list(arguments), catch_exceptions=False)
    assert result.exit_code in (0, 1), result.output
    return result.stdout


def analysis(lake: Path, *files: Path) -> dict[str, Any]:
    """The comparison of the two periods, without the name of the lake."""
    for part in files:
        flowdiff("import", str(part), "--lake", str(lake), "--window", "1m")
    told = flowdiff(
        *("compare", "--lake", str(lake), "--reference", "2022-08-23T16:59Z/2m"),
        *("--problem", "2022-08-23T15:12Z/2m", "--json", "-", "--no-save"),
    )
    found: dict[str, Any] = json.loads(told)
    del found["source"]
    return found


@pytest.fixture(scope="module")
def lines(shared_data: Path) -> list[bytes]:
    folder = shared_data / "online-boutique"
    return [
        line
        for n in FILES
        for line in gzip.decompress((folder / f"{n}.otlp.jsonl.gz").read_bytes()).splitlines()
    ]


@pytest.fixture(scope="module")
def plain(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("plain")
    (folder / "spans.jsonl").write_bytes(b"\n".join(lines))
    found = analysis(folder / "lake", folder / "spans.jsonl")
    assert found["response_time_total"] >= 4
    return found


def test_shuffled_and_duplicated_json(lines: list[bytes], plain: dict[str, Any], tmp_path: Path) -> None:
    mixed = lines + lines[::3]
    random.Random(1).shuffle(mixed)
    (tmp_path / "mixed.jsonl.gz").write_bytes(gzip.compress(b"\n".join(mixed), 1))
    assert analysis(tmp_path / "lake", tmp_path / "mixed.jsonl.gz") == plain


@pytest.mark.parametrize("spans_per_message", [37, 5000])
def test_protobuf_in_other_batches(
    lines: list[bytes], plain: dict[str, Any], tmp_path: Path, spans_per_message: int
) -> None:
    events = OtlpJsonCodec().decode(lines, DecodeConfig()).events
    order = list(range(events.num_rows))
    random.Random(2).shuffle(order)
    messages = otlp_messages(events.take(order), spans_per_message)
    (tmp_path / "spans.otlp").write_bytes(b"".join(length_prefixed(messages)))
    assert analysis(tmp_path / "lake", tmp_path / "spans.otlp") == plain
