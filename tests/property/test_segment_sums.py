"""Counts by values of attributes that statistics keep equal those of a plain loop, come back from a file, add
up, and are read as a history as its requests are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.refined import Call, call, population
from oracles.segment_sums import plain_segments

from analyze.methods.robust.segments.kept_history import KeptHistory
from analyze.methods.robust.segments.segment_tests import SLOW, Cells, Outcome
from analyze.population import PARAMS_AS_CODES, PARAMS_AS_TEXT, Population
from analyze.profile.attribute_values import attribute_values
from analyze.profile.build import profile_of
from analyze.profile.encoding import encode_stored, stored_of, stored_tables
from analyze.profile.flat_requests import flat_requests
from analyze.profile.profile import Slot
from analyze.profile.segment_sums import (
    NO_SEGMENTS,
    SegmentSums,
    keys_of_words,
    segment_sums,
    summed_segments,
)
from analyze.refine.settings import StatisticsSettings
from schemas.lake import SPANS

SETTINGS = StatisticsSettings(
    attributes=("*tier", "region", "user"), most_attributes=2, most_values=4, slow_requests=5
)


def made(seed: int, sizes: tuple[int, int]) -> Population:
    """Two samples of pages that ask the cart and, some, payment; each request with attributes."""
    rng = np.random.default_rng(seed)

    def request() -> Call:
        us = float(rng.integers(100, 400))
        below = [call("cart/read", 10, 10 + us, status="error" if rng.random() < 0.2 else "ok")]
        if rng.random() < 0.5:
            below.append(call("pay/charge", 20 + us, 50 + us, status="error" if rng.random() < 0.2 else "ok"))
        return call(f"web/page{rng.integers(3)}", 0, us + 60, *below)

    found = population(*([request() for _ in range(n)] for n in sizes))
    tables = []
    for sample in range(2):
        rows = []
        for category in found.categories:
            for name in category.request_id.to_pylist()[category.rows(sample)]:
                told = {"tier": "free" if rng.random() < 0.3 else "pro", "user": f"u{rng.integers(99)}"}
                told |= {"region": f"r{rng.integers(3)}"} if rng.random() < 0.8 else {}
                told |= {"left.out": "x"}
                rows += [
                    {"request_id": name, "kind": SPANS, "position": at, "key": key, "text": text}
                    for key, text in told.items()
                    for at in range(int(rng.integers(1, 3)))
                ]
        tables.append(pa.Table.from_pylist(rows, schema=PARAMS_AS_TEXT))

    def params(sample: int, /, *, as_codes: bool = False, **_: object) -> pa.Table:
        table = tables[sample]
        return table.select(PARAMS_AS_CODES.names).cast(PARAMS_AS_CODES) if as_codes else table

    return replace(found, params=params)


def of_sample(whole: Population, sample: int) -> Population:
    return whole.of_samples(sample, sample + 1)


def by_words(sums: SegmentSums) -> tuple[dict[tuple[object, ...], tuple[float, float]], ...]:
    """Rows of both relations by what their keys stand for."""
    values = sums.attribute_values.to_pydict()
    words = dict(zip(values["value"], zip(values["attribute"], values["text"], strict=True), strict=True))
    components = dict(zip(*sums.components.to_pydict().values(), strict=True))
    roots = {int(keys_of_words([name])[0]): name for name in (f"web/page{at}" for at in range(3))}
    return (
        {
            (*words[v], roots[r], components[c]): (n, x)
            for v, r, c, n, x in zip(*sums.segments.to_pydict().values(), strict=True)
        },
        {
            (*words[v], roots[r]): (n, x)
            for v, r, n, x in zip(*sums.slow_segments.to_pydict().values(), strict=True)
        },
    )


SIZES = st.tuples(st.integers(1, 60), st.integers(1, 60))


@given(seed=st.integers(0, 2**32 - 1), sizes=SIZES)
@examples(25)
def test_counts_are_those_of_a_loop(seed: int, sizes: tuple[int, int]) -> None:
    whole = made(seed, sizes)
    for sample in range(2):
        one = of_sample(whole, sample)
        users = len({row["text"] for row in one.params(0).to_pylist() if row["key"] == "user"})
        regions = len({row["text"] for row in one.params(0).to_pylist() if row["key"] == "region"})
        kept = {"tier": 2} | ({"region": 3} if regions else {})
        if not regions and users <= SETTINGS.most_values:
            kept |= {"user": users}
        mine, plain = by_words(segment_sums(one, SETTINGS)), plain_segments(one, 0, kept, SETTINGS)
        assert mine == plain


@given(seed=st.integers(0, 2**32 - 1), sizes=SIZES)
@examples(15)
def test_windows_come_back_and_add_up(seed: int, sizes: tuple[int, int]) -> None:
    whole = made(seed, sizes)
    kept = []
    for sample in range(2):
        one = of_sample(whole, sample)
        sums = segment_sums(one, SETTINGS)
        profile = profile_of(one, [Slot(0, 0, 2**62)]).profile
        again = stored_tables(encode_stored(stored_of(profile, sums)))
        assert again is not None
        assert again.segments == sums
        kept.append(sums)
    added = by_words(summed_segments(kept))
    for at, found in enumerate(added):
        parts = [by_words(one)[at] for one in kept]
        assert found == {
            key: tuple(np.sum([part[key] for part in parts if key in part], axis=0))
            for key in parts[0].keys() | parts[1].keys()
        }
    assert summed_segments([*kept, NO_SEGMENTS]) == summed_segments(kept)


@given(seed=st.integers(0, 2**32 - 1), sizes=SIZES)
@examples(25)
def test_a_history_counts_alike_as_requests_and_as_statistics(seed: int, sizes: tuple[int, int]) -> None:
    """Blocks of a history that keep all attributes; failures by component, and slow ones of the blocks."""
    whole = made(seed, sizes)
    settings = SETTINGS.model_copy(update={"most_attributes": 9, "most_values": 999})
    kept = [segment_sums(of_sample(whole, sample), settings) for sample in range(2)]
    flat = flat_requests(whole, None)
    history = KeptHistory(kept, flat)
    tables = [whole.params(sample, as_codes=True) for sample in range(2)]
    values = attribute_values(
        tables, flat.ids, lambda _: True, lambda counts: np.ones(len(counts.key), np.bool_)
    )
    root = flat.root[flat.category]
    slow, timed = (np.zeros(len(root), np.bool_) for _ in range(2))
    for sample in range(2):
        limit = replace(flat, sample=(flat.sample != sample).astype(np.int64)).limit_ns(
            settings.slow, settings.slow_requests
        )
        mine = flat.sample == sample
        slow |= mine & (flat.response_ns > limit)
        timed |= mine & (limit < np.iinfo(np.int64).max)
    outcomes = [
        Outcome(at, False, flat.passes[flat.category, at], flat.origin == at, root, len(flat.roots))
        for at in range(len(flat.components))
    ]
    outcomes.append(Outcome(SLOW, False, timed, slow, root, len(flat.roots)))
    for value in values:
        mine = [value.rows]
        for outcome in outcomes:
            # Where no request of a block has the attribute, nothing is known of the block.
            known = np.array([_has(one, value.key) for one in kept])[:, None]
            plain = [part * known for part in Cells(outcome, flat.sample, 2).counts(mine)]
            found = history.counts(value.key, value.value, outcome.component)
            if found is None:
                assert not plain[2].any()
                continue
            assert [part.tolist() for part in found] == [part.tolist() for part in plain]


def _has(sums: SegmentSums, attribute: str) -> bool:
    return attribute in sums.attribute_values["attribute"].to_pylist()


def test_a_file_whose_key_has_no_name_is_none() -> None:
    one = of_sample(made(1, (30, 1)), 0)
    sums, profile = segment_sums(one, SETTINGS), profile_of(one, [Slot(0, 0, 2**62)]).profile
    broken = sums._replace(components=sums.components.slice(1))
    assert stored_tables(encode_stored(stored_of(profile, sums))) is not None
    assert stored_tables(encode_stored(stored_of(profile, broken))) is None


@pytest.mark.parametrize("most", [0, 1])
def test_attributes_are_bounded(most: int) -> None:
    one = of_sample(made(2, (30, 1)), 0)
    sums = segment_sums(one, SETTINGS.model_copy(update={"most_attributes": most}))
    assert {*sums.attribute_values["attribute"].to_pylist()} == {*["tier"][:most]}
