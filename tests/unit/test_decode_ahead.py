"""Decoding chunks in a pool (ingest.files.decode_file)."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ingest.files import decode_file
from schemas.config import DecodeConfig

CHUNK_BYTES = 2_000
START_NS = 1_763_600_000_000_000_000


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_a_pool_gives_the_same_batches(tmp_path: Path, ahead: int) -> None:
    lines = [
        json.dumps({"breadcrumb": f"b{i}", "ts": START_NS + i, "component": "c", "point": "p", "odd": 1})
        for i in range(300)
    ]
    lines[::40] = ["{"] * len(lines[::40])
    path = tmp_path / "records.ndjson"
    path.write_text("\n".join(lines))
    plain = list(decode_file(path, "native", DecodeConfig(), chunk_bytes=CHUNK_BYTES, batch_events=50))
    with ThreadPoolExecutor(2) as pool:
        pooled = list(
            decode_file(
                path,
                "native",
                DecodeConfig(),
                chunk_bytes=CHUNK_BYTES,
                batch_events=50,
                pool=pool,
                ahead=ahead,
            )
        )
    assert len(plain) > 3
    assert sum(batch.events.num_rows for batch in plain) == 292
    assert pooled == plain
