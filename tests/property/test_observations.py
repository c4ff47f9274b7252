"""Attributes of several choices of requests, read together, against those of each request by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.plain_attributes import hosts_of, parameters_of
from oracles.populations import category, constant_chain, graph, population

from analyze.explain import table
from analyze.explain.chosen_requests import Selection
from analyze.explain.columns import REACHES, REQUEST, AttributeColumn
from analyze.explain.table import Observations, observe, sampled
from analyze.population import PARAMS_AS_TEXT, Population

HOSTS = ("a-1", "a-2", "b-1", "b-2")
OPERATIONS = ("a/X", "a/Y", "b/X", "c/Z")
KEYS = ("size", "user")


@st.composite
def recorded(draw: st.DrawFn) -> Population:
    """Up to three structures, requests of both periods, with hosts and parameters."""
    made = []
    for labels in draw(
        st.lists(
            st.lists(st.sampled_from(OPERATIONS), min_size=2, max_size=5),
            min_size=1,
            max_size=3,
            unique_by=tuple,
        )
    ):
        n0, n1 = draw(st.integers(1, 4)), draw(st.integers(1, 4))
        one = category(
            graph(labels), np.tile(np.arange(len(labels)), (n0 + n1, 1)), np.repeat([0, 1], [n0, n1])
        )
        host = draw(
            st.lists(
                st.integers(-1, len(HOSTS) - 1),
                min_size=len(labels) * (n0 + n1),
                max_size=len(labels) * (n0 + n1),
            )
        )
        made.append(replace(one, host=np.array(host, np.int32).reshape(len(labels), -1)))
    of = population(*made, hosts=HOSTS)
    rows = []
    value = st.one_of(st.none(), st.integers(0, 3).map(float), st.sampled_from(["gold", "free", "x"]))
    for one in of.categories:
        for row in range(one.n_requests):
            for position in range(len(one.graph.nodes)):
                for key in KEYS:
                    got = draw(value)
                    if got is not None:
                        number, text = (got, None) if isinstance(got, float) else (None, got)
                        name = one.request_id[row].as_py()
                        rows.append((int(one.sample[row]), name, "records", position, key, number, text))

    def params(
        sample: int, /, *, keys: Sequence[str] | None = None, requests: pa.Array | None = None
    ) -> pa.Table:
        assert keys is None
        mine = [dict(zip(PARAMS_AS_TEXT.names, row, strict=True)) for of, *row in rows if of == sample]
        read = pa.Table.from_pylist(mine, schema=PARAMS_AS_TEXT)
        return read if requests is None else read.filter(pc.is_in(read["request_id"], value_set=requests))

    return replace(of, params=params)


def selection(data: st.DataObject, of: Population) -> Selection:
    return Selection(
        {
            number: np.array(sorted(data.draw(st.sets(st.integers(0, one.n_requests - 1)))), np.int64)
            for number, one in enumerate(of.categories)
        }
    )


def values(column: AttributeColumn) -> list[str | float | None]:
    """Word or number of each request; None where it has none."""
    return [
        None if np.isnan(value) else value if column.levels is None else column.levels[int(value)]
        for value in column.values.tolist()
    ]


def same(one: Observations, other: Observations) -> bool:
    pairs = zip(one.columns, other.columns, strict=True)
    return all(
        (a.where, a.key, a.aggregate, values(a)) == (b.where, b.key, b.aggregate, values(b))
        and (a.passes is None) == (b.passes is None)
        and (a.passes is None or b.passes is None or np.array_equal(a.passes, b.passes))
        for a, b in pairs
    )


@examples(60)
@given(recorded(), st.data())
def test_choices_read_together_have_the_attributes_of_each_alone(of: Population, data: st.DataObject) -> None:
    asked = [
        sampled(of, [selection(data, of), selection(data, of)]) for _ in range(data.draw(st.integers(1, 4)))
    ]
    alone = [found for one in asked for found in observe(of, [one])]
    assert len(alone) == len(asked)
    for most in (0, 7, 10**6):
        with patch.object(table, "SETTINGS", replace(table.SETTINGS, most_read=most)):
            together = [*observe(of, asked)]
        assert all(same(a, b) for a, b in zip(alone, together, strict=True))


@pytest.mark.parametrize("most", [0, 10**6])
def test_a_choice_of_no_requests_needs_no_pass_of_its_own(most: int) -> None:
    of = population(constant_chain(OPERATIONS, 3, 3, 5, 9))
    none, some = (sampled(of, [Selection({0: np.arange(n)})]) for n in (0, 3))
    with patch.object(table, "SETTINGS", replace(table.SETTINGS, most_read=most)):
        found = [*observe(of, [none, some, none, none])]
    assert [len(one.chosen) for one in found] == [0, len(some), 0, 0]


@examples(60)
@given(recorded(), st.data())
def test_attributes_are_those_of_request_by_request(of: Population, data: st.DataObject) -> None:
    (found,) = observe(of, [sampled(of, [selection(data, of), selection(data, of)])])
    chosen = found.chosen
    hosts = [hosts_of(of, chosen, place) for place in range(len(chosen))]
    params = [parameters_of(of, chosen, place) for place in range(len(chosen))]
    for column in found.columns:
        got = values(column)
        if column.where == REQUEST or column.aggregate == "change":
            continue
        if column.key == "host":
            assert column.passes is not None
            assert column.passes.tolist() == [column.where in of_one for of_one in hosts]
            assert got == [next(iter(of_one.get(column.where, [])), None) for of_one in hosts]
        elif column.key.startswith(REACHES):
            name = column.key.removeprefix(REACHES).strip()
            assert got == ["yes" if name in of_one.get(column.where, []) else "no" for of_one in hosts]
        elif column.aggregate in ("", "first", "last"):
            field = [of_one.get((column.where, column.key), []) for of_one in params]
            if column.aggregate == "" and max(map(len, field)) > 1:
                continue  # the only one of several equal aggregates
            at = -1 if column.aggregate == "last" else 0
            plain = [of_one[at] if of_one else None for of_one in field]
            if column.levels is not None:
                plain = [f"{v:g}" if isinstance(v, float) else v for v in plain]
            assert got == plain


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)), st.booleans())
def test_a_selection_without_another_is_the_difference_of_sets(
    rows: set[int], gone: set[int], there: bool
) -> None:
    one, other = (np.array(sorted(of), np.int64) for of in (rows, gone))
    left = Selection({3: one}).without(Selection({3: other} if there else {4: other}))
    assert left.rows[3].tolist() == sorted(rows - gone if there else rows)
