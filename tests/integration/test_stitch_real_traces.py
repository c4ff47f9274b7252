"""Kernel, oracle and canonical text on traces nobody here wrote."""

from __future__ import annotations

import gzip
from pathlib import Path

import networkx as nx
import pyarrow as pa
import pytest
from oracles.agreement import disagreements, refined_colours
from oracles.canonical_text import read_text
from oracles.described import describe
from oracles.stitcher import read_events, stitch_plainly
from oracles.structure_rows import structure_from_row

from ingest.formats import codec_for
from schemas.config import DecodeConfig, StitchConfig
from stitch.graph.folding import node_words
from stitch.kernel import Stitched, stitch

CASES = [
    ("otlp-json", "online-boutique/before.otlp.jsonl.gz", 22_969),
    ("xtrace", "xtrace/gc.json.gz", 31),
    ("xtrace", "xtrace/small.json.gz", 166),
    ("xtrace", "xtrace/medium.json.gz", 849),
    ("xtrace", "xtrace/download.json.gz", 839),
    ("xtrace", "xtrace/large.json.gz", 1_187),
    ("xtrace", "xtrace/upload.json.gz", 2_483),
    ("zipkin", "zipkin/messaging-kafka.json.gz", 28),
    ("zipkin", "zipkin/messaging2.json.gz", 11),
    ("zipkin", "zipkin/skew.json.gz", 4),
    ("zipkin", "zipkin/smartthings-mobile-web-install.json.gz", 1_041),
    ("zipkin", "zipkin/smartthings-oauth-authorization.json.gz", 175),
    ("zipkin", "zipkin/yelp.json.gz", 16),
]
CONFIG = StitchConfig()


def read(format_: str, path: Path) -> pa.Table:
    return codec_for(format_).decode([gzip.decompress(path.read_bytes())], DecodeConfig()).events


def check_structures(result: Stitched) -> None:
    """Rows say what `describe` says, and texts that are not cut read back as the graph."""
    for row in result.structures.to_pylist():
        structure = structure_from_row(row)
        assert describe(structure.template) == structure
        if "…" in structure.canonical:
            continue
        graph = nx.DiGraph()
        words = node_words(structure.template)
        graph.add_nodes_from((i, {"text": word.text}) for i, word in enumerate(words))
        graph.add_edges_from(structure.template.edges)
        parsed = read_text(structure.canonical)
        assert refined_colours(parsed, "text", rounds=6) == refined_colours(graph, "text", rounds=6)


@pytest.mark.parametrize(("format_", "name", "n_events"), CASES)
def test_kernel_agrees_with_the_oracle(shared_data: Path, format_: str, name: str, n_events: int) -> None:
    events = read(format_, shared_data / name)
    assert events.num_rows == n_events
    result = stitch(events, CONFIG)
    oracle = stitch_plainly(read_events(events), CONFIG)
    assert list(disagreements(result.flows, result.structures, oracle)) == []
    for count in ("duplicates", "conflicts"):
        assert result.counts[count] == oracle.counts[count]
    check_structures(result)
