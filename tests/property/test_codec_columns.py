"""Columnar ids and params against one-at-a-time Python."""

from __future__ import annotations

import json
import re
from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.codecs.values.attributes import attribute_table
from ingest.codecs.values.ids import bytes_of_binary, bytes_of_text, hex_of_binary, hex_of_text
from ingest.codecs.values.json_params import attributes_of_json
from ingest.codecs.values.params import params_column
from schemas.config import DecodeConfig, ParamRules

_ids = st.one_of(
    st.none(),
    st.text("0123456789abcdefABCDEFg", max_size=34),
    st.text("0123456789abcdef", min_size=16, max_size=16),
    st.just("0" * 16),
)


@given(st.lists(_ids, max_size=8))
def test_text_ids(ids: list[str | None]) -> None:
    hexes, bad = hex_of_text(pa.array(ids, pa.string()))
    for id_, hex_, wrong in zip(ids, hexes.to_pylist(), bad.tolist(), strict=True):
        if not id_ or (not id_.strip("0") and len(id_) <= 32):
            assert (hex_, wrong) == (None, False)
        elif re.fullmatch("[0-9a-fA-F]{1,32}", id_):
            assert (hex_, wrong) == (id_.lower().rjust(16 if len(id_) <= 16 else 32, "0"), False)
        else:
            assert (hex_, wrong) == (None, True)
    packed, also_bad = bytes_of_text(pa.array(ids, pa.string()))
    assert [None if b is None else b.hex() for b in packed.to_pylist()] == hexes.to_pylist()
    assert also_bad.tolist() == bad.tolist()


@given(st.lists(st.one_of(st.none(), st.binary(max_size=17), st.binary(min_size=8, max_size=8)), max_size=8))
def test_binary_ids(ids: list[bytes | None]) -> None:
    hexes, bad = hex_of_binary(pa.array(ids, pa.binary()), (8, 16))
    for id_, hex_, wrong in zip(ids, hexes.to_pylist(), bad.tolist(), strict=True):
        if not id_:
            assert (hex_, wrong) == (None, False)
        elif len(id_) in (8, 16):
            assert (hex_, wrong) == (id_.hex() if any(id_) else None, False)
        else:
            assert (hex_, wrong) == (None, True)
    column = pa.array(ids, pa.binary())
    packed, bad = bytes_of_binary(column, 8)
    texts, also_bad = hex_of_binary(column, (8,))
    assert [None if b is None else b.hex() for b in packed.to_pylist()] == texts.to_pylist()
    assert also_bad.tolist() == bad.tolist()


_values = st.one_of(
    st.text(max_size=6),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**60), 2**60),
)
_keys = st.text("abcé", max_size=2)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(_keys, _values), max_size=6), max_size=6),
    st.lists(st.lists(st.tuples(_keys, _values), max_size=2), max_size=6),
)
def test_params_of_two_tables(
    first: list[list[tuple[str, object]]], second: list[list[tuple[str, object]]]
) -> None:
    n = max(len(first), len(second))
    first += [[]] * (n - len(first))
    second += [[]] * (n - len(second))
    config = DecodeConfig(max_params_per_event=3, params=ParamRules(deny=("a",)), max_text_bytes=5)
    tables = [
        attribute_table(
            [i for i, pairs in enumerate(rows) for _ in pairs],
            [k for pairs in rows for k, _ in pairs],
            [v for pairs in rows for _, v in pairs],
        )
        for rows in (first, second)
    ]
    oddities: Counter[str] = Counter()
    column = params_column(n, tables, config, oddities)
    assert len(column) == n
    duplicates = dropped = 0
    for row, a, b in zip(column.to_pylist(), first, second, strict=True):
        pairs = [(k, v) for k, v in a + b if k != "a"]
        expected = dict(reversed(pairs))
        duplicates += len(pairs) - len(expected)
        dropped += max(len(expected) - 3, 0)
        assert [p["key"] for p in row or []] == sorted(expected)[:3]
        for param in row or []:
            value = expected[param["key"]]
            if isinstance(value, bool):
                assert param["text"] == str(value).lower()
            elif isinstance(value, str):
                text = value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode()[:5].decode(errors="ignore")
                assert (param["num"], param["text"]) == (None, text)
            else:
                assert (param["num"], param["text"]) == (float(value), None)  # type: ignore[arg-type]
    assert oddities["duplicate-param"] == duplicates
    assert oddities["params-dropped"] == dropped


_json_values = st.recursive(
    st.one_of(_values, st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(_keys, inner, max_size=2)),
    max_leaves=3,
)


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.dictionaries(st.text(max_size=4), _json_values, max_size=4)), max_size=6)
)
def test_json_objects_without_parsing(rows: list[dict[str, object] | None]) -> None:
    texts = [None if r is None else json.dumps(r, separators=(",", ":"), ensure_ascii=False) for r in rows]
    tables, bad = attributes_of_json(pa.array(texts, pa.string()))
    assert len(bad) == 0
    found: dict[tuple[int, str], object] = {}
    for table in tables:
        source = np.arange(len(table)) if table.row is None else table.row
        for owner, code, row in zip(table.owner.tolist(), table.code.tolist(), source.tolist(), strict=True):
            num, text = table.num[row].as_py(), table.text[row].as_py()
            assert (num is None) != (text is None)
            found[owner, table.keys[code]] = text if num is None else num
    expected = {(i, k): v for i, row in enumerate(rows) for k, v in (row or {}).items() if v is not None}
    assert found.keys() == expected.keys()
    for place, value in expected.items():
        if isinstance(value, bool):
            assert found[place] == str(value).lower()
        elif isinstance(value, list | dict):
            assert json.loads(str(found[place])) == value
        else:
            assert found[place] == value
