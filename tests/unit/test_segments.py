"""Values of attributes as places to test: who is found, who is not, and what is left to call sites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from oracles.refined import Call, call, population
from oracles.span_events import T0

from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.segments.segment_changes import SEGMENTS
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.titles import finding_title
from analyze.population import PARAMS_AS_TEXT, Population, Sample
from analyze.profile.attribute_values import attribute_values, request_ids
from schemas.lake import RECORDS, SPANS
from schemas.report.findings import ChangeKind

HOUR_NS = 3_600 * 10**9
N, ROOTS = 1_200, 4
Fails = Callable[[int, int], bool]


def told(number: int) -> dict[str, str]:
    """Attributes of a request: a tier, a plan that goes with it, a region, and an id."""
    free = number % 5 == 0
    return {
        "tier": "free" if free else "pro",
        "plan": "basic" if free else f"p{number % 3}",
        "region": "eu" if number // 5 % 2 else "us",
        "user": f"u{number}",
    }


def system(fails: Fails, slow: Fails = lambda *_: False) -> Population:
    """Four pages ask the cart; `fails` and `slow` say which requests of (period, number) it lets wait."""

    def request(period: int, number: int) -> Call:
        us = (100 + number * 37 % 41) * (2 if slow(period, number) else 1)
        status = "error" if fails(period, number) else "ok"
        page = number // 7 % ROOTS
        cart = call(f"cart/op{page}", 10, 10 + us, status=status)
        return call(f"web/page{page}", 0, us + 30, cart, status=status)

    made = population(*([request(period, at) for at in range(N)] for period in (0, 1)))
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 2 * N * 10**9)
        for at, name in enumerate(("reference", "problem"))
    )

    @cache
    def rows(sample: int) -> pa.Table:
        ids = [
            (int(name.rpartition("-")[2]) if "-" in name else int(name, 16), name)
            for category in made.categories
            for name in category.request_id.filter(pa.array(category.sample == sample)).to_pylist()
        ]
        first = min(number for number, _ in ids)
        return pa.Table.from_pylist(
            [
                {"request_id": name, "kind": SPANS, "position": 0, "key": key, "text": text}
                for number, name in ids
                for key, text in told(number - first).items()
            ],
            schema=PARAMS_AS_TEXT,
        )

    def params(
        sample: int,
        /,
        *,
        keys: Sequence[str] | None = None,
        requests: pa.Array | None = None,
        as_codes: bool = False,
    ) -> pa.Table:
        del keys, requests, as_codes
        return rows(sample)

    return replace(made, samples=samples, params=params)


def titles(run: RobustRun) -> list[str]:
    return [finding_title(cause, run.profile.names, {}) for cause in run.causes]


def usual(_: int, number: int) -> bool:
    """One of two hundred fails, whoever it is."""
    return number % 199 == 3


def test_failures_of_a_value_pooled_over_operations_are_one_finding_that_says_whose() -> None:
    run = robust_run(
        system(lambda period, n: usual(period, n) or (period == 1 and n % 5 == 0 and n % 11 < 2)),
        None,
        RobustSettings(),
    )
    (title,) = titles(run)
    assert title.startswith("failing for tier = free: 18")
    assert "in 4 operations of cart (or plan = basic: the same requests)" in title
    assert run.causes[0].lead.kind is ChangeKind.ERRORS


def test_an_operation_with_ordinary_failures_only_is_no_part_of_it() -> None:
    """Page 3 fails as often as before, whoever asks; the others fail for one tier."""

    def fails(period: int, number: int) -> bool:
        if number // 7 % ROOTS == 3:
            return number % 11 == 0
        return usual(period, number) or (period == 1 and number % 5 == 0 and number % 3 == 0)

    run = robust_run(system(fails), None, RobustSettings())
    (cause,) = run.causes
    assert cause.lead.segment is not None
    names = {run.profile.names.operation(site).text for site in cause.lead.segment.sites}
    assert names == {f"cart/op{page}" for page in range(3)}


def test_two_values_together_are_named_together() -> None:
    run = robust_run(
        system(
            lambda period, n: (
                usual(period, n) or (period == 1 and n % 5 == 0 and n // 5 % 2 == 1 and n % 3 > 0)
            )
        ),
        None,
        RobustSettings(),
    )
    (title,) = titles(run)
    assert "tier = free and region = eu" in title


def test_twice_the_time_of_a_value() -> None:
    run = robust_run(system(usual, lambda period, n: period == 1 and n % 5 == 0), None, RobustSettings())
    assert any("tier = free" in title for title in titles(run))


def test_what_fails_for_all_alike_is_of_no_segment() -> None:
    run = robust_run(
        system(lambda period, n: usual(period, n) or (period == 1 and n % 13 < 2)), None, RobustSettings()
    )
    assert run.causes
    assert not any(change.segment for cause in run.causes for change in cause.changes)


def test_nothing_is_found_in_ordinary_times_and_without_the_rule() -> None:
    assert not robust_run(system(usual), None, RobustSettings()).causes
    fault = system(lambda period, n: usual(period, n) or (period == 1 and n % 5 == 0 and n % 11 < 2))
    left = robust_run(fault, None, RobustSettings(without=(SEGMENTS,)))
    assert not any(change.segment for cause in left.causes for change in cause.changes)


@pytest.mark.parametrize("bound", [{}, {"_MOST_FLAGS": 1}, {"_MOST_CELLS": 0}])
def test_attributes_are_those_of_requests_of_the_same_kind_and_of_all_their_messages(
    monkeypatch: pytest.MonkeyPatch, bound: dict[str, int]
) -> None:
    """An id that has both spans and records is two requests; one and its messages have one id. The same for
    values that are marked one after the other, and for pairs that are sorted."""
    for name, most in bound.items():
        monkeypatch.setattr(f"analyze.profile.attribute_values.{name}", most)
    rows = [("one", SPANS, "a"), ("one", RECORDS, "b"), ("two", SPANS, "b"), ("none", SPANS, "b")]
    table = pa.table(
        {
            "request_id": [name for name, _, _ in rows],
            "kind": [kind for _, kind, _ in rows],
            "key": ["key"] * len(rows),
            "num": pa.nulls(len(rows), pa.float64()),
            "text": [text for _, _, text in rows],
        }
    )
    ids = request_ids(
        pa.array(["one", "two", "one", "other", "one"]), np.array([True, True, False, True, True])
    )
    found = attribute_values(
        [table], ids, lambda _: True, lambda counts: np.ones(len(counts.key), dtype=np.bool_)
    )
    assert {value.value: value.rows.tolist() for value in found} == {"a": [0, 4], "b": [1, 2]}
