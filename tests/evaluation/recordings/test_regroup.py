"""Samples regrouped are samples loaded: what was read once serves as if it were read for each comparison."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from evaluation.recordings.regroup import regroup
from oracles.populations import KnownText

from analyze.population import Category, Graph, GraphNode, LeftBehind, Population, RecordedFailures, Sample

pytestmark = pytest.mark.evaluation

N_SAMPLES = 4


def graph(name: str) -> Graph:
    nodes = (GraphNode("web", name), GraphNode("web", "REPLY"))
    return Graph(
        name, f"web/{name}", nodes, np.array([[0, 1]], np.int32), np.array([1], np.int32), KnownText(name)
    )


def category(name: str, per_sample: tuple[int, ...], seed: int) -> Category:
    """Every row can be told by its id; `sample` and position in the sample are in it."""
    rng = np.random.default_rng(seed)
    n = sum(per_sample)
    sample = np.repeat(np.arange(len(per_sample), dtype=np.uint8), per_sample)
    ids = pa.array([f"{name}-{s}-{at}" for s, many in enumerate(per_sample) for at in range(many)])
    response = rng.integers(1, 1_000, n)
    failed = np.flatnonzero(rng.random(n) < 0.5).astype(np.int32)
    return Category(
        graph=graph(name),
        node_ns=np.stack([np.zeros(n, np.int64), response]),
        response_ns=response,
        start_ns=np.arange(n, dtype=np.int64),
        weight=rng.random(n),
        sample=sample,
        status=rng.integers(0, 2, n).astype(np.int32),
        request_id=ids,
        stored=("s0", "s1"),
        skewed_edges=np.zeros(1, np.bool_),
        host=rng.integers(0, 3, (2, n)).astype(np.int32),
        failures=RecordedFailures(failed, np.ones(len(failed), np.int32), np.zeros(len(failed), np.int32)),
        origin=rng.integers(0, 2, n).astype(np.int32),
        left_behind=((), (LeftBehind(0, "web/late"),)),
    )


def population() -> Population:
    def params(sample: int, /, **_: Any) -> pa.Table:
        return pa.table({"sample": [sample]})

    return Population(
        (category("GET", (3, 2, 0, 4), 1), category("PUT", (0, 0, 2, 1), 2)),
        {"INCOMPLETE": (1, 2, 3, 4)},
        (),
        tuple(Sample(f"s{n}", f"t{n}", 10 * n, 10 * n + 5) for n in range(N_SAMPLES)),
        ("ok", "error"),
        params=params,
    )


def requests(pop: Population, sample: int) -> dict[str, tuple[Any, ...]]:
    """Everything that is known of each request of a sample, by id."""
    found = {}
    for c in pop.categories:
        for row in range(*c.rows(sample).indices(c.n_requests)):
            failures = c.failures.position[c.failures.row == row].tolist()
            assert c.host is not None
            assert c.origin is not None
            found[c.request_id[row].as_py()] = (
                c.graph.key,
                c.node_ns[:, row].tolist(),
                c.response_ns[row],
                c.start_ns[row],
                c.weight[row],
                c.status[row],
                c.host[:, row].tolist(),
                c.origin[row],
                failures,
            )
    return found


def test_every_request_is_in_the_sample_of_its_group_with_all_that_is_known_of_it() -> None:
    whole = population()
    found = regroup(whole, [[3], [0, 1]], ["problem", "reference"])
    assert requests(found, 0) == requests(whole, 3)
    assert requests(found, 1) == requests(whole, 0) | requests(whole, 1)
    assert found.excluded == {"INCOMPLETE": (4, 3)}
    assert [(s.name, s.start_ns, s.end_ns) for s in found.samples] == [
        ("problem", 30, 35),
        ("reference", 0, 15),
    ]
    assert [s.ranges for s in found.samples] == [(), ((0, 5), (10, 15))]
    assert found.params(1)["sample"].to_pylist() == [0, 1]
    for c in found.categories:
        assert list(c.sample) == sorted(c.sample)
        assert list(c.failures.row) == sorted(c.failures.row)


def test_a_category_of_other_samples_only_is_left_out() -> None:
    assert [c.graph.key for c in regroup(population(), [[0]], ["x"]).categories] == ["GET"]


def test_a_sample_in_two_groups_is_refused() -> None:
    with pytest.raises(ValueError, match="two groups"):
        regroup(population(), [[0], [0]], ["a", "b"])


def test_no_field_with_a_row_a_request_is_forgotten() -> None:
    """A field of one row a request that is new in Category would keep its old length."""
    whole = population()
    found = regroup(whole, [[1], [3]], ["a", "b"])
    for before, after in zip(whole.categories, found.categories, strict=True):
        for field in fields(Category):
            value = getattr(before, field.name)
            if hasattr(value, "shape") and before.n_requests in value.shape:
                assert after.n_requests in getattr(after, field.name).shape, field.name
