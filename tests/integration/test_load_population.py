"""Real traces, through import, lake and loading, to a population."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from oracles.quiet_import import Quiet

from analyze.load import load_population, read_flows
from analyze.paths.critical_path import attribute
from analyze.population import Category, Population, no_params
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod, resolve
from analyze.sql.session import open_session
from schemas.errors import ConfigError, LakeError, PeriodError
from schemas.periods import Period, parse_period
from schemas.windows import NS_PER_MINUTE
from stitch.drivers.batch import ImportSettings, import_into
from stitch.lake.encoding import read_rows
from stitch.lake.store import LocalStore

BEFORE = "2022-08-23T16:59/2022-08-23T17:01"
DELAY = "2022-08-23T15:12/2022-08-23T15:14"
NOW = 0


@pytest.fixture(scope="module")
def lake(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("load") / "lake"
    names = ("before", "after-recommendation-delay", "after-frontend-return")
    import_into(
        folder,
        [str(shared_data / "online-boutique" / f"{name}.otlp.jsonl.gz") for name in names],
        ImportSettings(window_length_ns=NS_PER_MINUTE),
        owner="test",
        created_by="test",
        stdin=BytesIO(),
        progress=Quiet(),
    )
    return str(folder)


def period(text: str, where: str | None = None) -> Period:
    return parse_period(text, now_ns=NOW, where=where)


def load(lake: str, reference: Period, problem: Period) -> Population:
    samples = [
        (name, resolve(asked, default_lake=lake))
        for name, asked in (("reference", reference), ("problem", problem))
    ]
    return load_population(samples, RefineSettings()).population


def counts(category: Category) -> list[int]:
    return np.bincount(category.sample, minlength=2).tolist()


def test_the_delay_is_on_the_edge_out_of_list_recommendations(lake: str) -> None:
    found = load(lake, period(BEFORE), period(DELAY))
    assert sum(sum(counts(category)) for category in found.categories) == 502 + 509
    assert len(found.categories) == 18
    calling = [
        category
        for category in found.categories
        if any("ListRecommendations" in label for label in category.graph.labels)
        and min(counts(category)) > 10
    ]
    assert max(counts(category) for category in calling) == [174, 156]
    for category in calling:
        parts = attribute(category)
        reddest = int(np.argmax(np.abs(parts.contribution_us)))
        src, dst = category.graph.edges[reddest]
        assert category.graph.labels[src].startswith("recommendationservice/")
        assert category.graph.labels[src].endswith("ListRecommendations<")
        assert category.graph.labels[dst].endswith("ListRecommendations<")
        assert parts.contribution_us[reddest] > 100_000
        # The shop calls one service after the other: no fork is left.
        assert len(category.graph.edges) == category.graph.n_nodes - 1


def test_the_same_period_twice_changes_nothing(lake: str) -> None:
    found = load(lake, period(BEFORE), period(BEFORE))
    for category in found.categories:
        assert counts(category)[0] == counts(category)[1]
        assert np.array_equal(*np.split(category.node_ns, 2, axis=1))
        assert not attribute(category).contribution_us.any()


def test_part_of_a_window_is_cut_by_start(lake: str) -> None:
    whole = read_flows(resolve(period("2022-08-23T17:00/1m"), default_lake=lake))
    half = read_flows(resolve(period("2022-08-23T17:00/10s"), default_lake=lake))
    middle = period("2022-08-23T17:00/10s").end_ns
    assert half.num_rows == int((whole["start_ns"].to_numpy() < middle).sum())
    assert 0 < half.num_rows < whole.num_rows


def components(found: Population) -> dict[str, set[str]]:
    """Request -> components it went through."""
    return {
        request: {node.component for node in category.graph.nodes}
        for category in found.categories
        for request in category.request_id.to_pylist()
    }


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("component = recommendationservice", lambda names: "recommendationservice" in names),
        ("component != recommendationservice", lambda names: "recommendationservice" not in names),
        ("component in (cartservice, emailservice)", lambda names: names & {"cartservice", "emailservice"}),
        ("root like '%Recv.' and host like 'emailservice-%'", lambda names: "emailservice" in names),
        ("status = 'no such'", lambda names: False),
    ],
)
def test_filters_choose_flows(lake: str, where: str, wanted: Callable[[set[str]], object]) -> None:
    everything = components(load(lake, period(BEFORE), period(BEFORE)))
    kept = read_flows(resolve(period(BEFORE, where), default_lake=lake))["request_id"].to_pylist()
    assert set(kept) == {request for request, names in everything.items() if wanted(names)}
    assert len(set(kept)) == len(kept) < 502


def test_what_is_not_there_is_said(lake: str, tmp_path: Path) -> None:
    with pytest.raises(PeriodError, match=r"2022-08-23T16:59Z/2022-08-23T17:01Z \(2\)"):
        load(lake, period("2021-01-01"), period(BEFORE))
    with pytest.raises(PeriodError, match="holds no request"):
        load(lake, period(BEFORE, "host = nowhere"), period(BEFORE))
    with pytest.raises(PeriodError, match="names no lake"):
        resolve(period(BEFORE))
    with pytest.raises(LakeError):
        resolve(period(f"{tmp_path}@{BEFORE}"))


def test_all_is_fitted(lake: str) -> None:
    found = resolve(period("all"), default_lake=lake)
    assert found.period.text == "2022-08-23T12:10Z/2022-08-23T17:01Z"
    assert found.period.lake == lake
    assert LocalStore.at(found.root).size("flowdiff.json") is not None


def test_any_number_of_samples_and_a_history_are_refined_together(lake: str) -> None:
    minutes = ["2022-08-23T16:59/1m", "2022-08-23T17:00/1m"]
    samples = [(f"minute {i}", resolve(period(text), default_lake=lake)) for i, text in enumerate(minutes)]
    problem = ("problem", resolve(period(DELAY), default_lake=lake))
    one = load_population([problem], RefineSettings())
    assert one.history is None
    assert [sample.name for sample in one.population.samples] == ["problem"]
    both = load_population([problem], RefineSettings(), history=samples)
    together = load_population([problem, *samples], RefineSettings()).population
    assert both.history is not None
    assert [sample.name for sample in both.history.samples] == ["minute 0", "minute 1"]
    assert [sample.name for sample in together.samples] == ["problem", "minute 0", "minute 1"]
    keys = {category.graph.key: category for category in together.categories}
    for part, first in ((both.population, 0), (both.history, 1)):
        assert part.categories
        for category in part.categories:
            whole = keys[category.graph.key]
            for sample in range(len(part.samples)):
                mine, theirs = category.rows(sample), whole.rows(first + sample)
                assert np.array_equal(category.node_ns[:, mine], whole.node_ns[:, theirs])
                assert category.request_id[mine].equals(whole.request_id[theirs])
                assert np.array_equal(category.weight[mine], whole.weight[theirs])
                assert np.array_equal(category.status[mine], whole.status[theirs])
            assert category.node_ns.flags.c_contiguous
    parts = (both.population, both.history)
    counted = sum(category.n_requests for part in parts for category in part.categories)
    assert counted == sum(category.n_requests for category in together.categories) == 502 + 509


def test_too_many_samples_are_refused(lake: str) -> None:
    found = resolve(period(BEFORE), default_lake=lake)
    with pytest.raises(ConfigError, match="257 samples"):
        load_population([(str(i), found) for i in range(257)], RefineSettings())


MIDNIGHT_NS = 1_661_212_800 * 10**9
"""2022-08-23T00:00Z."""


@pytest.fixture(scope="module")
def lake_of_params(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two minutes of two requests each; request i has the parameters `size` = i and `user` = u<i>."""
    folder = tmp_path_factory.mktemp("params")
    lines = []
    for request in range(4):
        start = MIDNIGHT_NS + (request // 2) * NS_PER_MINUTE + request
        told = {"breadcrumb": f"b{request}", "request_id": f"r{request}", "component": "shop"}
        params = {"size": request, "user": f"u{request}"}
        lines.append({**told, "point": "in", "ts": start, "params": params})
        lines.append({**told, "point": "out", "ts": start + 1000, "kind": "end", "params": {"size": 10}})
    (folder / "in.ndjson").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    import_into(
        folder / "lake",
        [str(folder / "in.ndjson")],
        ImportSettings(window_length_ns=NS_PER_MINUTE),
        owner="test",
        created_by="test",
        stdin=BytesIO(),
        progress=Quiet(),
    )
    return str(folder / "lake")


def test_a_period_ends_before_its_end(lake_of_params: str) -> None:
    """A request that starts at the very end of a period is not in it, for loading and for SQL."""
    found = resolve(period("2022-08-23T00:00/1m"), default_lake=lake_of_params)
    for end_ns, names in ((MIDNIGHT_NS + 1, ["r0"]), (MIDNIGHT_NS + 2, ["r0", "r1"])):
        cut = replace(found, period=replace(found.period, end_ns=end_ns))
        assert read_flows(cut)["request_id"].to_pylist() == names
        with open_session(cut) as session:
            asked = session.query("SELECT request_id FROM requests ORDER BY request_id")
        assert asked["request_id"].to_pylist() == names


def test_two_ranges_of_one_window_are_one_sample(lake_of_params: str) -> None:
    whole = resolve(period("2022-08-23T00:00/1m"), default_lake=lake_of_params)
    ranges = [(MIDNIGHT_NS, MIDNIGHT_NS + 1), (MIDNIGHT_NS + 1, MIDNIGHT_NS + 2)]
    parts = [replace(whole, period=replace(whole.period, start_ns=a, end_ns=b)) for a, b in ranges]
    population = load_population([("both", parts)], RefineSettings()).population
    assert sum(category.n_requests for category in population.categories) == 2
    assert population.params(0).equals(
        load_population([("all", whole)], RefineSettings()).population.params(0)
    )
    (sample,) = population.samples
    assert (sample.ranges, sample.length_ns) == (tuple(ranges), 2)
    assert (sample.start_ns, sample.end_ns) == (MIDNIGHT_NS, MIDNIGHT_NS + 2)


def test_times_without_a_matching_request_are_no_history(lake_of_params: str) -> None:
    minutes = [f"2022-08-23T00:0{minute}/1m" for minute in (0, 1)]

    def found(where: str) -> list[LakePeriod]:
        return [resolve(period(text, where), default_lake=lake_of_params) for text in minutes]

    first, second = found("user = u2")
    both = load_population(
        [("first", found("user = u1")[0])], RefineSettings(), history=[("a", first), ("b", second)]
    )
    assert both.history is not None
    assert [sample.name for sample in both.history.samples] == ["b"]
    # One range of a sample may have nothing; all of them may not.
    together = load_population([("all", [first, second])], RefineSettings()).population
    assert sum(category.n_requests for category in together.categories) == 1
    with pytest.raises(PeriodError, match="history holds no request"):
        load_population([("first", second)], RefineSettings(), history=[("a", first)])
    with pytest.raises(PeriodError, match="has user = 'u2'"):
        load_population([("first", first)], RefineSettings())
    with pytest.raises(PeriodError, match="has a parameter 'nothing'"):
        load_population([("all", found("nothing = 1"))], RefineSettings())


@pytest.mark.parametrize("where", ["component = '{}x'", "root = '{}x'", "user = 'u3'"])
def test_a_name_that_is_not_there_brings_near_ones(lake_of_params: str, where: str) -> None:
    minute = "2022-08-23T00:00/1m"
    whole = load_population(
        [("all", resolve(period(minute), default_lake=lake_of_params))], RefineSettings()
    ).population
    root = whole.categories[0].graph.root
    name = {"component": root.split("/")[0], "root": root, "user": "u"}[where.split()[0]]
    asked = resolve(period(minute, where.format(name)), default_lake=lake_of_params)
    with pytest.raises(PeriodError, match=f"There are: {re.escape(name)}"):
        load_population([("all", asked)], RefineSettings())


def test_parameters_are_read_when_asked_for(lake_of_params: str, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [
        (text, resolve(period(f"2022-08-23T00:0{text}/1m"), default_lake=lake_of_params)) for text in "01"
    ]
    params = {path for _, found in samples for path in found.params}
    assert len(params) == 2
    read: list[Path] = []
    monkeypatch.setattr(
        "analyze.load.read_rows",
        lambda path, *what, **how: read.append(path) or read_rows(path, *what, **how),
    )
    population = load_population(samples, RefineSettings()).population
    assert read
    assert not set(read) & params

    found = population.params(1)
    assert found.schema.equals(no_params(1).schema)
    assert set(read) & params == set(samples[1][1].params)
    told = [(row["request_id"], row["key"], row["num"], row["text"]) for row in found.to_pylist()]
    assert told == [
        *(("r2", "size", 2, None), ("r2", "user", None, "u2"), ("r2", "size", 10, None)),
        *(("r3", "size", 3, None), ("r3", "user", None, "u3"), ("r3", "size", 10, None)),
    ]
    texts = ("request_id", "kind", "key", "text")
    assert all(pa.types.is_string(found.schema.field(name).type) for name in texts)

    assert population.params(1, keys=["user"])["text"].to_pylist() == ["u2", "u3"]
    assert population.params(0, keys=["size"], requests=pa.array(["r1", "r2"]))["num"].to_pylist() == [1, 10]
    assert population.params(1, keys=[]).num_rows == 0
    assert population.params(1, requests=pa.array([], pa.string())).num_rows == 0
    assert population.of_samples(1, 2).params(0).equals(found)
