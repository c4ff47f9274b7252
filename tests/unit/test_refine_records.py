"""What the refinement makes of activity records: deferral, zoom, merging, settling, and what it refuses."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from oracles.refined import only
from oracles.stored_flows import lake_tables, stored_records

from analyze.population import Population
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from schemas.errors import LakeError
from schemas.quality import Quality
from stitch.graph.template import Template

RNG = np.random.default_rng(0)


def record_population(
    *parts: tuple[Template, list[list[int]]], settings: RefineSettings | None = None
) -> Population:
    tables = lake_tables(RNG, [(template, np.array(times, dtype=np.int64)) for template, times in parts])
    return refine(*tables, settings or RefineSettings())


def dag(
    names: str, edges: list[tuple[int, int]], responses: list[int], deferred: list[int] | None = None
) -> Template:
    """Nodes as `component/point` words."""
    words = names.split()
    return Template.of_graph(
        [(word.split("/")[0], word.split("/")[1], None) for word in words],
        edges,
        responses,
        deferred=[at in (deferred or []) for at in range(len(words))],
    )


CHAIN = [(0, 1), (1, 2), (2, 3)]


def test_record_order_is_taken_as_it_is() -> None:
    """Two strands that never overlap stay parallel: their order is not in the records."""
    fork = dag("a/s a/x a/y a/e", [(0, 1), (0, 2), (1, 3), (2, 3)], [3])
    category = only(record_population((fork, [[0, 10, 20, 30]] * 30)))
    assert category.graph.edges.tolist() == [[0, 1], [0, 2], [1, 3], [2, 3]]


def test_deferred_records_go_and_categories_merge() -> None:
    plain = dag("a/s a/x a/e", [(0, 1), (1, 2)], [2])
    written = dag("a/s a/x a/e a/flush", [(0, 1), (1, 2), (1, 3)], [2], deferred=[3])
    found = only(record_population((plain, [[0, 5, 9]] * 2), (written, [[0, 4, 8, 90]] * 3)))
    assert found.graph.labels == ("a/s", "a/x", "a/e")
    assert len(found.stored) == 2
    assert sorted(found.response_ns.tolist()) == [8, 8, 8, 9, 9]
    kept = record_population((written, [[0, 4, 8, 90]]), settings=RefineSettings(keep_deferred=True))
    times = dict(zip(only(kept).graph.labels, only(kept).node_ns[:, 0].tolist(), strict=True))
    assert times == {"a/s": 0, "a/x": 4, "a/e": 8, "a/flush": 90}
    assert only(kept).response_ns.tolist() == [8]


def test_branches_that_became_alike_are_ordered_by_start() -> None:
    """One of two reads writes back later: without that they are interchangeable."""
    forked = dag("a/s a/read a/read a/back a/e", [(0, 1), (0, 2), (1, 3), (1, 4), (2, 4)], [4], deferred=[3])
    found = only(record_population((forked, [[0, 10, 20, 50, 30], [0, 20, 10, 50, 30]])))
    assert found.node_ns.T.tolist() == [[0, 10, 20, 30], [0, 10, 20, 30]]


def test_zoom_keeps_boundaries_and_drops_implied_edges() -> None:
    program = dag(
        "web/s web/plan db/read db/scan db/done web/merge web/e",
        [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 5), (5, 6)],
        [6],
    )
    found = only(record_population((program, [[0, 1, 2, 3, 4, 5, 6]]), settings=RefineSettings(level="L3")))
    assert found.graph.labels == ("web/s", "web/plan", "db/read", "db/done", "web/merge", "web/e")
    assert found.graph.edges.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]


def test_times_are_settled() -> None:
    """A record before its predecessor is moved to it; nothing passes the response."""
    chain = dag("a/s a/x a/y a/e", CHAIN, [3])
    found = only(
        record_population((chain, [[0, 30, 20, 40], [0, 50, -5, 40], [0, 10, 20, 30], [0, 1, 2, -7]]))
    )
    rows = {tuple(row) for row in found.node_ns.T.tolist()}
    assert rows == {(0, 30, 30, 40), (0, 40, 40, 40), (0, 10, 20, 30), (0, 0, 0, 0)}
    assert found.skewed_edges.tolist() == [True, True, True]
    clean = only(record_population((chain, [[0, 10, 20, 30]])))
    assert not clean.skewed_edges.any()


def test_untestable_flows_are_left_out_and_counted() -> None:
    flows, structures = stored_records(0, 100, 3, 6)
    quality = np.zeros(100, dtype=np.uint32)
    quality[:10] = Quality.CYCLE | Quality.NO_END
    quality[10:15] = Quality.CAPPED | Quality.CYCLE
    quality[15:40] = Quality.NEGATIVE
    flows = flows.set_column(flows.column_names.index("quality"), "quality", pa.array(quality))
    found = refine(flows, structures, RefineSettings())
    assert sum(len(category.response_ns) for category in found.categories) == 85
    assert set(found.excluded) == {"CYCLE", "CAPPED"}
    assert sum(found.excluded["CYCLE"]) == 15
    assert sum(found.excluded["CAPPED"]) == 5
    assert found.excluded["CYCLE"][1] == int(flows["sample"].to_numpy()[:15].sum())


def test_nothing_gives_nothing() -> None:
    flows, structures = stored_records(0, 10, 2, 6)
    found = refine(flows.slice(0, 0), structures.slice(0, 0), RefineSettings())
    assert found == Population((), {}, (), incomplete=((0, 0), (0, 0)))


def test_a_lake_that_does_not_fit_itself_is_refused() -> None:
    flows, structures = stored_records(0, 10, 2, 6)
    with pytest.raises(LakeError, match="has no structure"):
        refine(flows, structures.slice(0, 1), RefineSettings())
    other = stored_records(1, 10, 1, 5)[1]
    renamed = other.set_column(0, structures.schema.field("category"), structures["category"].slice(0, 1))
    with pytest.raises(LakeError, match="other than 5 nodes"):
        refine(flows, pa.concat_tables([renamed, structures]), RefineSettings())


def test_names_that_are_written_alike_are_kept_apart() -> None:
    """`a/b` + `c` and `a` + `b/c` are displayed alike; so is a host in front of a component."""

    def named(*names: tuple[str, str]) -> Template:
        return Template.of_graph([(*name, None) for name in names], [(0, 1)], [1])

    found = record_population(
        (named(("a", "s"), ("a/b", "c")), [[0, 5]]), (named(("a", "s"), ("a", "b/c")), [[0, 5]])
    )
    assert [category.graph.labels for category in found.categories] == [("a/s", "a/b/c")] * 2
    assert {category.graph.nodes[1].component for category in found.categories} == {"a/b", "a"}
    assert len({category.graph.key for category in found.categories}) == 2
