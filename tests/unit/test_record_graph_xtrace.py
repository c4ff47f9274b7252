"""Record graphs of real Hadoop jobs (X-Trace), counted from the raw `Edge` lists."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest

from ingest.codecs.xtrace.xtrace import XTraceCodec
from schemas.config import DecodeConfig, StitchConfig
from schemas.events import concat_events, with_text_ids
from schemas.quality import Quality
from stitch.graph.placed import PlacedFlows
from stitch.records.record_graphs import place_records

FILES = ("download", "gc", "large", "medium", "small", "upload")


def raw_graphs(document: list[dict[str, Any]]) -> tuple[dict[str, nx.DiGraph], dict[str, set[str]]]:
    """Graphs of all edges between present reports, and the events that name absent ones, by task."""
    graphs: dict[str, nx.DiGraph] = {}
    missing: dict[str, set[str]] = {}
    for entry in document:
        for report in entry["reports"]:
            if "X-Trace" not in report:
                continue
            metadata = report["X-Trace"][0]
            task, event = metadata[2:-16].lower(), metadata[-16:].lower()
            graph = graphs.setdefault(task, nx.DiGraph())
            graph.add_node(event)
            graph.nodes[event]["parents"] = {p.lower() for p in report.get("Edge", [])} - {"0" * 16}
    for task, graph in graphs.items():
        missing[task] = set()
        present = {event for event, data in graph.nodes(data=True) if "parents" in data}
        for event in sorted(present):
            for parent in graph.nodes[event]["parents"]:
                if parent in present:
                    graph.add_edge(parent, event)
                else:
                    missing[task].add(event)
    return graphs, missing


def load(shared_data: Path, name: str) -> tuple[pa.Table, list[dict[str, Any]]]:
    payload = gzip.decompress((shared_data / "xtrace" / f"{name}.json.gz").read_bytes())
    decoded = XTraceCodec().decode([payload], DecodeConfig())
    return concat_events([decoded.events]), json.loads(payload)


def flow_edges(placed: PlacedFlows, events: pa.Table, i: int) -> set[tuple[str, str]]:
    """Edges of a flow between real events, by their ids."""
    ids = with_text_ids(events)["id"].to_pylist()
    event = placed.event[placed.first_node[i] : placed.first_node[i + 1]].tolist()
    part = slice(int(placed.first_edge[i]), int(placed.first_edge[i + 1]))
    pairs = zip(placed.src[part].tolist(), placed.dst[part].tolist(), strict=True)
    return {(ids[event[a]], ids[event[b]]) for a, b in pairs if event[a] >= 0 and event[b] >= 0}


@pytest.mark.parametrize("name", FILES)
def test_every_event_is_placed_with_its_forks_and_joins(shared_data: Path, name: str) -> None:
    events, document = load(shared_data, name)
    graphs, missing = raw_graphs(document)
    placed = place_records(events, StitchConfig())
    assert sorted(placed.event[placed.event >= 0].tolist()) == list(range(events.num_rows))
    assert events.num_rows == sum(len(graph) for graph in graphs.values())
    assert placed.request_names is not None
    names = placed.request_names.to_pylist()
    assert sorted(names[code] for code in placed.request.tolist()) == sorted(graphs)
    for i, code in enumerate(placed.request.tolist()):
        graph = graphs[names[code]]
        reduced = nx.transitive_reduction(graph)
        edges = flow_edges(placed, events, i)
        assert edges == set(reduced.edges)
        kept = nx.DiGraph(edges)
        assert sum(d > 1 for _, d in kept.in_degree()) == sum(d > 1 for _, d in reduced.in_degree())
        assert sum(d > 1 for _, d in kept.out_degree()) == sum(d > 1 for _, d in reduced.out_degree())
        quality = Quality(int(placed.quality[i]))
        assert bool(quality & Quality.ORPHAN) == bool(missing[names[code]])
        sources = [v for v, d in graph.in_degree() if d == 0 and not graph.nodes[v]["parents"]]
        assert bool(quality & Quality.MULTI_ROOT) == (len(sources) > 1)
        assert not quality & (Quality.CYCLE | Quality.NO_END | Quality.UNCLOSED | Quality.CONFLICT)


def test_counts_of_the_raw_files(shared_data: Path) -> None:
    """Events, edges to present events, joins (several present parents), events naming an absent parent."""
    counts = {}
    for name in FILES:
        graphs, missing = raw_graphs(load(shared_data, name)[1])
        counts[name] = (
            sum(len(graph) for graph in graphs.values()),
            sum(graph.number_of_edges() for graph in graphs.values()),
            sum(d > 1 for graph in graphs.values() for _, d in graph.in_degree()),
            sum(len(events) for events in missing.values()),
        )
    assert counts == {
        "download": (839, 884, 46, 3),
        "gc": (31, 23, 0, 0),
        "large": (1187, 1416, 159, 0),
        "medium": (849, 1009, 97, 0),
        "small": (166, 218, 36, 0),
        "upload": (2483, 4753, 1001, 1),
    }


@pytest.mark.parametrize("name", FILES)
def test_arrival_order_does_not_matter(shared_data: Path, name: str) -> None:
    events, _ = load(shared_data, name)
    placed = place_records(events, StitchConfig())
    shuffle = np.random.default_rng(0).permutation(events.num_rows)
    again = place_records(events.take(pa.array(shuffle)).combine_chunks(), StitchConfig())
    assert placed.request_names is not None
    assert again.request_names is not None
    by_name = {n: i for i, n in enumerate(again.request_names.take(pa.array(again.request)).to_pylist())}
    for i, name_ in enumerate(placed.request_names.take(pa.array(placed.request)).to_pylist()):
        j = by_name[name_]
        event = placed.event[placed.first_node[i] : placed.first_node[i + 1]]
        other = again.event[again.first_node[j] : again.first_node[j + 1]]
        assert (np.where(other >= 0, shuffle[other], other) == event).all()
        assert flow_edges(placed, events, i) == flow_edges(again, events.take(pa.array(shuffle)), j)


@pytest.mark.parametrize("name", FILES)
def test_times_do_not_show_in_the_template(shared_data: Path, name: str) -> None:
    """Three of these graphs have crossing interchangeable branches, where careless ties would."""
    events, _ = load(shared_data, name)
    placed = place_records(events, StitchConfig())
    chance = np.random.default_rng(0)
    times = pa.array(chance.integers(10**18, 10**18 + 10**9, events.num_rows))
    at = events.schema.get_field_index("ts_ns")
    again = place_records(events.set_column(at, events.schema.field(at), times), StitchConfig())
    for column in ("quality", "first_node", "src", "dst", "response", "deferred"):
        assert (getattr(placed, column) == getattr(again, column)).all()
    for word in ("component", "point"):
        words = np.array([*events[word].to_pylist(), "?root", "?missing"])
        assert (words[placed.event] == words[again.event]).all()
