"""Words sorted, and keys looked up, by arrays: as Python's sets and sorting do it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stitch.columnar import runs
from stitch.drivers.build.request_plan import among

_WORDS = st.lists(st.text("ab", max_size=2), max_size=6)


@given(st.data())
def test_words_are_those_in_use_in_order_and_rows_stay_the_same(data: st.DataObject) -> None:
    dictionary = data.draw(_WORDS)
    codes = st.integers(0, len(dictionary) - 1) if dictionary else st.nothing()
    indices = data.draw(st.lists(st.none() | codes, max_size=20))
    words = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(dictionary, pa.string()))
    words = words.slice(data.draw(st.integers(0, len(words))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_LOOKED_AT", data.draw(st.sampled_from([1, 3, 1 << 14])))
        found = runs.sorted_words(words)
    assert found.to_pylist() == words.to_pylist()
    assert found.dictionary.to_pylist() == sorted({word for word in words.to_pylist() if word is not None})
    assert found.type == words.type


@given(st.data())
def test_codes_have_the_words_in_use_each_once(data: st.DataObject) -> None:
    dictionary = data.draw(st.lists(st.text("ab", max_size=2), max_size=6, unique=True))
    texts = data.draw(
        st.lists(st.none() | st.sampled_from(dictionary) if dictionary else st.none(), max_size=20)
    )
    codes = [None if text is None else dictionary.index(text) for text in texts]
    words = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(dictionary, pa.string()))
    first = data.draw(st.integers(0, len(words)))
    for given_ in (words.slice(first), pa.array(texts, pa.string()).slice(first)):
        found = runs.coded_words(given_)
        assert found.to_pylist() == texts[first:]
        used = {text for text in texts[first:] if text is not None}
        assert sorted(found.dictionary.to_pylist()) == sorted(used)


_KEYS = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5), max_size=20)


@given(_KEYS, _KEYS)
def test_keys_are_found_that_are_known(known: list[int], keys: list[int]) -> None:
    found = among(np.array(sorted(known), np.uint64), np.array(keys, np.uint64))
    assert found.tolist() == [key in known for key in keys]
