"""From a population to a table: sampling, parameters, what is left out, findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from fixtures.explained import explain_finding
from oracles.populations import category, graph, population

from analyze.explain.chosen_requests import Selection, choose
from analyze.explain.parameters import parameter_readings
from analyze.explain.settings import SETTINGS
from analyze.explain.table import FeatureTable, features
from analyze.population import PARAMS_AS_TEXT, Category, Population, Source
from analyze.report.wording import NBSP

SPACING_NS = 1_000_000_000
DAY_NS = 86_400 * SPACING_NS
Value = float | str | None | tuple[float, str]


class Params:
    """Parameters of a population made by hand: (category, row, position, key, value)."""

    def __init__(self, categories: Sequence[Category]) -> None:
        self.categories = categories
        self.rows: list[tuple[int, str, int, str, Value]] = []

    def add(self, number: int, position: int, key: str, values: Sequence[Value]) -> None:
        """One value a row of the category; None: the request does not have it."""
        of = self.categories[number]
        for row, value in enumerate(values):
            if value is not None:
                self.rows.append((int(of.sample[row]), of.request_id[row].as_py(), position, key, value))

    def __call__(
        self, sample: int, /, *, keys: Sequence[str] | None = None, requests: pa.Array | None = None
    ) -> pa.Table:
        wanted = None if requests is None else set(requests.to_pylist())
        found = [row for row in self.rows if row[0] == sample and (wanted is None or row[1] in wanted)]
        return pa.Table.from_pylist(
            [
                {
                    "request_id": request,
                    "kind": "records",
                    "position": position,
                    "key": key,
                    "num": value[0]
                    if isinstance(value, tuple)
                    else value
                    if isinstance(value, float)
                    else None,
                    "text": value[1]
                    if isinstance(value, tuple)
                    else value
                    if isinstance(value, str)
                    else None,
                }
                for _, request, position, key, value in found
            ],
            schema=PARAMS_AS_TEXT,
        )


def made(labels: Sequence[str], n0: int, n1: int) -> Category:
    """n0 requests of the reference and n1 of the problem, one a second, a day apart."""
    g = graph(labels)
    offsets = np.tile(np.arange(len(labels)) * 1000, (n0 + n1, 1))
    of = category(g, offsets, np.repeat([0, 1], [n0, n1]))
    start = np.concatenate([np.arange(n0), DAY_NS // SPACING_NS + np.arange(n1)]) * SPACING_NS
    return replace(of, start_ns=start.astype(np.int64))


def period(of: Population, sample: int, *numbers: int) -> Selection:
    rows = {}
    for number in numbers or range(len(of.categories)):
        found = of.categories[number].rows(sample)
        rows[number] = np.arange(found.start, found.stop)
    return Selection(rows)


def world(
    n: int = 100, labels: Sequence[str] = ("web/GET", "db/QUERY", "db/DONE")
) -> tuple[Population, Params, np.random.Generator]:
    one = made(labels, n, n)
    params = Params([one])
    return population(one, params=params), params, np.random.default_rng(0)


def keys(table: FeatureTable) -> set[str]:
    return {column.text for column in table.columns}


def test_a_parameter_that_changed_with_the_period() -> None:
    of, params, rng = world()
    params.add(0, 1, "rows", np.r_[rng.uniform(1, 50, 100), rng.uniform(60, 90, 100)].tolist())
    params.add(0, 0, "user", [f"u{i}" for i in rng.integers(0, 5, 200)])
    table = features(of, period(of, 1), period(of, 0))
    assert keys(table) == {"rows at db/QUERY", "user at web/GET"}
    assert table.contrast.n_affected == 100
    found = explain_finding(of, period(of, 1), None, period(of, 0))
    assert found.sentence.startswith("rows > ")
    assert (
        f"at db/QUERY: 100{NBSP}% of the affected requests, 0{NBSP}% of the requests of the reference"
        in found.sentence
    )


def test_several_values_of_a_request_become_aggregates() -> None:
    of, params, _ = world(10)
    first, second = [float(i) for i in range(20)], [float(i % 3) for i in range(20)]
    params.add(0, 1, "n", first)
    params.add(0, 2, "n", second)  # another operation: another column
    three = made(["web/GET", "db/QUERY", "db/QUERY", "db/QUERY"], 10, 10)
    loop = Params([three])
    for position, values in ((1, first), (2, second), (3, [7.0] * 20)):
        loop.add(0, position, "n", values)
        loop.add(0, position, "mode", ["x" if position < 3 else f"y{i % 4}" for i in range(20)])
    table = features(population(three, params=loop), period(of, 1), period(of, 0))
    columns = {column.name: column for column in table.columns}
    assert columns["n (first)"].values.tolist() == [*map(float, range(10, 20)), *map(float, range(10))]
    assert columns["n (max)"].values.tolist() == [*map(float, range(10, 20)), *([7.0] * 8), 8.0, 9.0]
    assert columns["n (mean)"].values[0] == pytest.approx((10 + 1 + 7) / 3)
    assert columns["n (distinct)"].values[-1] == 3.0  # 9, 0, 7
    assert "mode (mode)" not in columns  # always x
    assert columns["mode (last)"].levels == ("y0", "y1", "y2", "y3")


def test_mixed_values_are_words_and_numbers_in_text_are_numbers() -> None:
    of, params, _ = world(20)
    params.add(0, 0, "as text", [str(i % 7) if i % 2 else float(i % 7) for i in range(40)])
    params.add(0, 0, "mixed", [float(i % 3) if i % 2 else "none" for i in range(40)])
    params.add(0, 0, "service.version", ["1.10" if i % 4 else "1.1" for i in range(40)])
    params.add(0, 0, "both", [(float(i % 5), "12") for i in range(40)])
    params.add(0, 0, "odd", ["nan", "inf", "1e999", "0x10"] * 10)
    params.add(0, 0, "infinite", [float("inf"), float("nan"), 1.0, 2.0] * 10)
    columns = {c.key: c for c in features(of, period(of, 1), period(of, 0)).columns}
    assert columns["as text"].numeric
    assert columns["mixed"].levels == ("none", "0", "1", "2")
    assert columns["service.version"].levels == ("1.1", "1.10")
    assert columns["odd"].levels == ("0x10", "1e999", "inf", "nan")
    assert np.isnan(columns["infinite"].values).sum() == 20
    assert "both" not in columns  # the text says 12, always


def test_ids_clocks_and_constants_are_left_out() -> None:
    of, params, rng = world()
    params.add(0, 0, "order", [f"o-{i}" for i in range(200)])
    params.add(0, 0, "sequence", [float(i) + rng.random() for i in range(200)])
    params.add(0, 0, "thread.id", [float(i % 4) for i in range(200)])
    params.add(0, 0, "net.peer.port", [float(i % 4) for i in range(200)])
    params.add(0, 0, "trace_id", [f"t{i % 4}" for i in range(200)])
    params.add(0, 0, "region", ["eu"] * 200)
    params.add(0, 0, "kept", [float(i % 4) for i in range(200)])
    assert keys(features(of, period(of, 1), period(of, 0))) == {"kept at web/GET"}


def test_changed_identifiers_are_told_and_never_split() -> None:
    of, params, _ = world()
    params.add(0, 0, "service.version", ["v1"] * 100 + ["v2"] * 100)
    params.add(0, 0, "pod", [f"a{i % 3}" for i in range(100)] + [f"b{i % 3}" for i in range(100)])
    params.add(0, 0, "build", [41.0] * 100 + [42.0] * 100)
    params.add(0, 0, "size", [16384.0] * 100 + [4096.0] * 100)
    found = explain_finding(of, period(of, 1), None, period(of, 0))
    assert [(i.key, i.before, i.after) for i in found.identifiers] == [
        ("build", "41", "42"),
        ("pod", "a0, a1, a2", "b0, b1, b2"),
        ("service.version", "v1", "v2"),
    ]
    assert found.sentence.startswith(f"size <= 4096 at web/GET: 100{NBSP}%")
    assert "Changed with the period: build 41 → 42 at web/GET; pod" in found.sentence
    assert [row.key for row in found.attributes] == ["size"]


def test_what_all_operations_of_a_request_agree_on_is_one_parameter_of_the_request() -> None:
    of, params, rng = world()
    tenant = [f"t{i}" for i in rng.integers(0, 3, 200)]
    params.add(0, 0, "tenant", tenant)
    params.add(0, 1, "tenant", [None, *tenant[1:]])
    params.add(0, 0, "size", [float(i % 5) for i in range(200)])
    params.add(0, 1, "size", [99.0 if i == 150 else float(i % 5) for i in range(200)])
    params.add(0, 0, "build", ["41"] * 100 + ["42"] * 100)
    params.add(0, 1, "build", ["41"] * 100 + ["42"] * 100)
    table = features(of, period(of, 1), period(of, 0))
    assert {"tenant", "size at web/GET", "size at db/QUERY"} <= keys(table)
    assert not {"size", "tenant at web/GET", "tenant at db/QUERY"} & keys(table)
    (column,) = (column for column in table.columns if column.key == "tenant")
    assert column.levels is not None
    told = [column.levels[int(value)] for value in column.values]
    assert told == [*tenant[100:], *tenant[:100]]
    found = explain_finding(of, period(of, 1), None, period(of, 0))
    assert [(i.where, i.key) for i in found.identifiers] == [("", "build")]
    assert "Changed with the period: build 41 → 42" in found.sentence
    assert "42 at" not in found.sentence


@pytest.mark.parametrize("name", ["tenant", "web/GET tenant", "tenant at db/QUERY"])
def test_what_operations_share_is_left_out_by_the_name_of_any(name: str) -> None:
    of, params, _ = world(200)
    tenant = ["a"] * 200 + ["b" if i % 2 else "a" for i in range(200)]
    params.add(0, 0, "tenant", tenant)
    params.add(0, 1, "tenant", tenant)
    affected = Selection({0: np.arange(201, 400, 2)})
    others = Selection({0: np.arange(200, 400, 2)})
    assert "tenant" in explain_finding(of, affected, others, period(of, 0)).sentence
    without = explain_finding(of, affected, others, period(of, 0), exclude=(name,))
    assert "tenant is" not in without.sentence
    assert "tenant" in without.excluded


def test_a_few_values_of_the_other_period_are_left_over_by_a_deployment() -> None:
    of, params, _ = world()
    params.add(0, 0, "build", ["41"] * 100 + ["41"] * 4 + ["42"] * 96)
    params.add(0, 0, "image", ["a"] * 100 + ["a"] * 5 + ["b"] * 95)
    table = features(of, period(of, 1), period(of, 0))
    assert [(i.key, i.before, i.after) for i in table.identifiers] == [("build", "41", "42")]


def test_a_word_of_the_affected_alone_is_an_explanation_and_no_identifier() -> None:
    of, params, _ = world(200)
    encoding = ["old"] * 200 + ["new" if i % 2 else "old" for i in range(200)]
    params.add(0, 1, "encoding", encoding)
    rows = np.array([i for i in range(200, 400) if encoding[i] == "new"])
    rest = np.array([i for i in range(200, 400) if encoding[i] == "old"])
    found = explain_finding(of, Selection({0: rows}), Selection({0: rest}), period(of, 0))
    assert found.identifiers == ()
    assert found.sentence == (
        f"encoding is new at db/QUERY: 100{NBSP}% of the affected requests, "
        f"0{NBSP}% of the other requests of the problem."
    )
    two = features(of, Selection({0: rows}), period(of, 0))
    assert two.identifiers == ()  # known by the requests that neither class has
    assert "encoding at db/QUERY" in keys(two)


def test_time_that_passed_between_the_periods_is_taken_out_by_the_contrast_inside() -> None:
    of, params, rng = world(300)
    affected = np.arange(300, 600)[rng.random(300) < 0.4]
    rest = np.setdiff1d(np.arange(300, 600), affected)
    drifts = np.r_[rng.normal(0, 1, 300), rng.normal(6, 1, 300)]
    params.add(0, 0, "drifts", drifts.tolist())
    size = rng.normal(0, 1, 600)
    size[affected] += 6
    params.add(0, 1, "size", size.tolist())
    found = explain_finding(of, Selection({0: affected}), Selection({0: rest}), period(of, 0))
    assert found.sentence.startswith("size > ")
    assert "other requests of the problem" in found.sentence


def test_what_is_so_on_every_day_is_no_news() -> None:
    of, params, rng = world(400)
    size = rng.uniform(0, 100, 800)
    codec = np.where((np.arange(800) >= 400) & (rng.random(800) < 0.4), "new", "old")
    slow = (size > 80) | (codec == "new")
    params.add(0, 0, "size", size.tolist())
    params.add(0, 1, "codec", codec.tolist())
    rows = np.arange(800)
    after = rows >= 400
    affected, rest = Selection({0: rows[after & slow]}), Selection({0: rows[after & ~slow]})
    usual = Selection({0: rows[~after & slow]})
    naive = explain_finding(of, affected, rest, period(of, 0))
    assert any("size" in condition for rule in naive.rules for condition in rule.conditions)
    found = explain_finding(of, affected, rest, period(of, 0), usual=usual)
    assert found.reliable
    assert found.sentence.startswith("codec is new at db/QUERY: ")
    assert found.excluded == ()
    # Where nothing new tells them apart, nothing is told.
    only_large, small = Selection({0: rows[after & (size > 80)]}), Selection({0: rows[after & (size <= 80)]})
    nothing = explain_finding(
        of, only_large, small, period(of, 0), usual=Selection({0: rows[~after & (size > 80)]})
    )
    assert "size >" not in nothing.sentence


def test_more_of_what_was_always_slow_is_a_reason() -> None:
    of, params, rng = world(400)
    size = np.r_[rng.uniform(0, 100, 400), rng.uniform(60, 120, 400)]
    params.add(0, 0, "size", size.tolist())
    rows = np.arange(800)
    slow, after = size > 80, rows >= 400
    found = explain_finding(
        of,
        Selection({0: rows[after & slow]}),
        Selection({0: rows[after & ~slow]}),
        period(of, 0),
        usual=Selection({0: rows[~after & slow]}),
    )
    assert found.sentence.startswith("size > ")
    assert f"at web/GET: 100{NBSP}% of the affected requests" in found.sentence


def test_nodes_that_one_class_does_not_pass_are_no_ground() -> None:
    short, long = made(["web/GET", "db/DONE"], 60, 0), made(["web/GET", "retry/AGAIN", "db/DONE"], 0, 60)
    of = population(short, long)
    params = Params(of.categories)
    number = {len(c.graph.nodes): i for i, c in enumerate(of.categories)}
    params.add(number[3], 1, "attempt", [float(i % 3) for i in range(60)])
    for n in (2, 3):
        params.add(number[n], 0, "user", [f"u{i % 3}" for i in range(60)])
        params.add(number[n], n - 1, "bytes", [float(i % 9) for i in range(60)])
    of = replace(of, params=params)
    table = features(of, period(of, 1, number[3]), period(of, 0, number[2]))
    assert keys(table) == {"user at web/GET", "bytes at db/DONE"}


def test_parameters_are_found_by_the_position_that_was_stored() -> None:
    of, params, _ = world(20)
    stored = replace(of.categories[0], stored=("other",))
    params.add(0, 2, "rows", [float(i % 4) for i in range(40)])
    of = replace(
        of,
        categories=(stored,),
        stored_operations=lambda asked: {"other": ("web/GET", "web/PARSED", "db/QUERY", "db/DONE")},
    )
    assert keys(features(of, period(of, 1), period(of, 0))) == {"rows at db/QUERY"}


def test_each_request_of_a_category_has_the_positions_of_its_own_structure() -> None:
    """Structures that became one category were all read by the positions of the first."""
    of, params, _ = world(20)
    merged = replace(
        of.categories[0],
        stored=("long", "short"),
        sources=(Source("long"), Source("short")),
        source=(np.arange(40) % 2).astype(np.int32),
    )
    params.add(0, 2, "rows", [float(i % 4) for i in range(40)])
    operations = {
        "long": ("web/GET", "web/PARSED", "db/QUERY", "db/DONE"),
        "short": ("web/GET", "db/QUERY", "db/DONE"),
    }
    of = replace(
        of, categories=(merged,), stored_operations=lambda asked: {key: operations[key] for key in asked}
    )
    chosen = choose(of, [period(of, 1)], 40, np.random.default_rng(0))
    read = parameter_readings(of, chosen)
    operation = {
        int(row): read.fields[int(field)][0] for row, field in zip(read.request, read.field, strict=True)
    }
    assert operation == {
        at: ("db/QUERY", "db/DONE")[int(row) % 2] for at, row in enumerate(chosen.row.tolist())
    }


def test_a_message_has_the_parameters_of_its_own_work() -> None:
    of, params, _ = world(20)
    message = replace(of.categories[0], stored=("whole",), sources=(Source("whole", (2, 3)),))
    for position in range(4):
        params.add(0, position, f"key_{position}", [float(i % 4) for i in range(40)])
    of = replace(
        of,
        categories=(message,),
        stored_operations=lambda asked: {"whole": ("web/GET", "web/SEND", "mail/RECEIVE", "mail/DONE")},
    )
    assert keys(features(of, period(of, 1), period(of, 0))) == {"key_2 at mail/RECEIVE", "key_3 at mail/DONE"}


def test_a_number_that_grows_between_nodes() -> None:
    of, params, rng = world()
    sent = rng.uniform(1000, 9000, 200)
    params.add(0, 0, "bytes", sent.tolist())
    params.add(0, 1, "bytes", (sent + np.repeat([0.0, 500.0], 100)).tolist())
    found = explain_finding(of, period(of, 1), None, period(of, 0))
    assert "bytes (change)" in found.sentence
    assert "at web/GET → db/QUERY" in found.sentence or "at db/QUERY → web/GET" in found.sentence


def with_hosts(of: Population, host: np.ndarray, names: tuple[str, ...]) -> Population:
    return replace(of, categories=(replace(of.categories[0], host=host.astype(np.int32)),), hosts=names)


def test_hosts_are_attributes() -> None:
    of, _, rng = world()
    data = np.where(np.arange(200) < 100, rng.integers(1, 4, 200), np.where(rng.random(200) < 0.9, 3, 1))
    of = with_hosts(of, np.stack([np.zeros(200), data, data]), ("web-1", "dn-1", "dn-2", "dn-3"))
    found = explain_finding(of, period(of, 1), None, period(of, 0))
    assert found.sentence.startswith("host is dn-3 at db: ")


def test_several_hosts_of_a_component_are_reached_or_not() -> None:
    of, _, rng = world()
    first, second = rng.integers(0, 3, 200), rng.integers(0, 3, 200)
    second[100:] = 2
    first[:100] = np.where(first[:100] == 2, 1, first[:100])
    second[:100] = np.where(second[:100] == 2, 0, second[:100])
    of = with_hosts(of, np.stack([np.full(200, -1), first, second]), ("dn-1", "dn-2", "dn-3"))
    found = explain_finding(of, period(of, 1), None, period(of, 0))
    assert "reaches host dn-3" in {row.key for row in found.attributes}
    said = {condition for rule in found.rules for condition in rule.conditions}
    assert {"reaches host dn-3 at db", "does not reach host dn-3 at db"} <= said


def test_a_sample_is_spread_over_time_and_follows_weights() -> None:
    of, _, _ = world(1000)
    weight = np.where(np.arange(2000) % 2 == 0, 9.0, 1.0)
    of = replace(of, categories=(replace(of.categories[0], weight=weight),))
    chosen = choose(of, [period(of, 0), period(of, 1)], 100, np.random.default_rng(1))
    assert chosen.available == (1000, 1000)
    assert np.bincount(chosen.group).max() <= 100
    rows = chosen.row[chosen.group == 0]
    assert np.histogram(rows, bins=10, range=(0, 1000))[0].min() >= 8
    assert (rows % 2 == 0).mean() > 0.8
    everything = choose(of, [period(of, 0)], 1000, np.random.default_rng(1))
    assert everything.row.tolist() == list(range(1000))


def test_a_request_is_of_one_class() -> None:
    of, params, rng = world()
    params.add(0, 0, "size", rng.random(200).tolist())
    table = features(of, Selection({0: np.arange(100, 150)}), Selection({0: np.arange(100, 200)}))
    assert (table.affected.sum(), (~table.affected).sum()) == (50, 50)
    assert not np.isnan(table.columns[0].values).any()


def test_one_host_of_many_that_became_slow_is_named_beside_what_is_always_slow() -> None:
    of, params, rng = world(600)
    host = rng.integers(0, 4, 1200)
    of = with_hosts(of, np.stack([np.full(1200, -1), host, host]), ("dn-0", "dn-1", "dn-2", "dn-3"))
    size = rng.uniform(0, 100, 1200)
    params.add(0, 0, "size", size.tolist())
    rows = np.arange(1200)
    after = rows >= 600
    slow = (size > 95) | (after & (host == 2) & (rng.random(1200) < 0.9))
    found = explain_finding(
        of,
        Selection({0: rows[after & slow]}),
        Selection({0: rows[after & ~slow]}),
        period(of, 0),
        usual=Selection({0: rows[~after & slow]}),
    )
    assert found.reliable
    assert found.sentence.startswith("host is dn-2 at db: ")


def test_selections_that_are_empty_or_wrong() -> None:
    of, _, _ = world(20)
    empty = Selection({})
    found = explain_finding(of, empty, empty, empty)
    assert (found.reason, found.contrast.n_affected) == ("too-few", 0)
    assert explain_finding(of, period(of, 1), empty, period(of, 0)).reason == "no-parameters"
    with pytest.raises(ValueError, match="rows 0 to 39"):
        features(of, Selection({0: np.array([40])}), empty)


def test_hour_and_sampling_are_compared_inside_a_period_only() -> None:
    one = made(["web/GET", "db/DONE"], 300, 300)
    hours = np.tile([9, 15], 300) * 3600 * SPACING_NS
    start = one.start_ns // DAY_NS * DAY_NS + hours + np.arange(600) * SPACING_NS
    of = population(replace(one, start_ns=start, weight=np.tile([1.0, 8.0], 300)))
    evens, odds = np.arange(300, 600, 2), np.arange(301, 600, 2)
    inside = features(of, Selection({0: evens}), Selection({0: odds}))
    assert keys(inside) == {"hour of day (UTC)", "sampled"}
    assert keys(features(of, Selection({0: evens}), period(of, 0))) == set()


def test_settings_are_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    of, params, _ = world()
    params.add(0, 0, "secret", [float(i % 4) for i in range(200)])
    monkeypatch.setattr("analyze.explain.table.SETTINGS", replace(SETTINGS, ignored=("^secret$",)))
    assert keys(features(of, period(of, 1), period(of, 0))) == set()
