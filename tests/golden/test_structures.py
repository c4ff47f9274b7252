"""The lake contract on real traces: category keys, canonical texts and orders, counts, node times."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ingest.formats import codec_for
from schemas.config import DecodeConfig, StitchConfig
from schemas.events import TEXT_EVENT_SCHEMA
from schemas.lake import LAYOUT_VERSION, TABLES
from schemas.quality import Quality
from schemas.report.report import REPORT_VERSION
from schemas.stored_columns import FIELD_ID
from stitch.kernel import Stitched, stitch
from stitch.readings import reading_of, templates_of

CASES = [
    ("xtrace", "xtrace/download.json.gz"),
    ("xtrace", "xtrace/gc.json.gz"),
    ("xtrace", "xtrace/large.json.gz"),
    ("xtrace", "xtrace/medium.json.gz"),
    ("xtrace", "xtrace/small.json.gz"),
    ("xtrace", "xtrace/upload.json.gz"),
    ("zipkin", "zipkin/messaging-kafka.json.gz"),
    ("zipkin", "zipkin/messaging2.json.gz"),
    ("zipkin", "zipkin/skew.json.gz"),
    ("zipkin", "zipkin/smartthings-mobile-web-install.json.gz"),
    ("zipkin", "zipkin/smartthings-oauth-authorization.json.gz"),
    ("zipkin", "zipkin/yelp.json.gz"),
    ("otlp-json", "online-boutique/before.otlp.jsonl.gz"),
    ("otlp-json", "online-boutique/after-frontend-return.otlp.jsonl.gz"),
    ("otlp-json", "online-boutique/after-recommendation-delay.otlp.jsonl.gz"),
]
TEXT_SHOWN = 600
"""Characters of a canonical text; the longest has 65,000."""


def digest(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shown(text: str) -> str:
    return text if len(text) <= TEXT_SHOWN else f"{text[:TEXT_SHOWN]} [{len(text)}: {digest(text)}]"


def flags(mask: int) -> str:
    return " ".join(flag.name or "" for flag in Quality(mask)) or "clean"


def structure_summary(row: dict[str, Any], requests: int) -> dict[str, Any]:
    """Keys and texts to read, and a digest of the rest: canonical order, edges, keys."""
    texts = ("canonical", "canonical_l1")
    rest = {key: value for key, value in row.items() if key not in texts}
    return {
        **{key: row[key] for key in ("category", "category_l1", "category_l2", "root", "n_nodes")},
        "requests": requests,
        "edges": len(row["in_edges"]),
        "responses": len(row["responses"]),
        "canonical": shown(row["canonical"]),
        "canonical_l1": digest(row["canonical_l1"]),
        "row": digest(rest),
    }


def summary(result: Stitched) -> dict[str, Any]:
    flows = result.flows.to_pylist()
    requests = Counter(flow["category"] for flow in flows)
    return {
        "counts": dict(sorted(result.counts.items())),
        "rejects": dict(sorted(Counter(str(reject.reason) for reject in result.rejects).items())),
        "quality": dict(sorted(Counter(flags(flow["quality"]) for flow in flows).items())),
        "status": dict(sorted(Counter(flow["status"] for flow in flows).items())),
        "inner_status": dict(sorted(Counter(str(flow["inner_status"]) for flow in flows).items())),
        "params": [result.params.num_rows, digest(result.params.to_pylist())],
        "structures": [
            structure_summary({**row, **asdict(reading_of(template))}, requests[row["category"]])
            for row, template in zip(
                result.structures.to_pylist(), templates_of(result.structures), strict=True
            )
        ],
        # Node times in canonical order, hosts, response times; request by request in the order of the lake.
        "flows": digest(flows),
    }


@pytest.mark.parametrize(("format_", "name"), CASES)
def test_structures(golden: Callable[[str, str], None], shared_data: Path, format_: str, name: str) -> None:
    decoded = codec_for(format_).decode([gzip.decompress((shared_data / name).read_bytes())], DecodeConfig())
    found = {
        "decoded": {"rejects": len(decoded.rejects), "oddities": dict(sorted(decoded.oddities.items()))},
        **summary(stitch(decoded.events, StitchConfig())),
    }
    stem = Path(name).name.split(".")[0]
    golden(f"structures-{format_}-{stem}.json", json.dumps(found, ensure_ascii=False, indent=1) + "\n")


def test_contract(golden: Callable[[str, str], None]) -> None:
    """Numbers, names, types and order of the columns that other programs read."""

    def columns(name: str, schema: pa.Schema) -> list[str]:
        return [
            f"{name}.{f.name} #{f.metadata[FIELD_ID].decode()}: {f.type}{'' if f.nullable else ' not null'}"
            for f in schema
        ]

    lines = [f"layout version {LAYOUT_VERSION}", f"report version {REPORT_VERSION}"]
    for name, schema in TABLES.items():
        lines += columns(name, schema)
    lines += columns("events", TEXT_EVENT_SCHEMA)
    golden("contract.txt", "\n".join(lines) + "\n")


def test_golden_files_stay_small(expected_folder: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in expected_folder.iterdir()}
    assert {name: size for name, size in sizes.items() if size > 40_000} == {}
    assert 0 < sum(sizes.values()) < 300_000
