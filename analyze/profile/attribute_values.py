"""Find the requests that have each value of an attribute (for example `http.method` = `GET`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analyze.cache_blocks import FEW_CELLS, blocks
from schemas.arrays import B1, I4, I8
from schemas.lake import SPANS

_MOST_CELLS: Final = 1 << 23
"""Maximum number of (attribute, word) pairs that are counted in a dense array (64 MB); more are sorted."""
_MOST_FLAGS: Final = 1 << 26
"""Maximum number of (value, request) flags in an array (64 MB); more are made part by part."""


@dataclass(frozen=True, slots=True)
class RequestIds:
    """Codes that join requests with the rows of attribute tables.

    Several requests may have the same code: a request and the messages that it sent. An id that occurs with
    spans and with activity records belongs to two unrelated requests, with different codes."""

    words: pa.StringArray
    """Distinct request ids."""
    code: I8
    """int64[requests]: code of the request's id and kind, from 0."""
    codes: I4
    """int32[2, words + 1]: code by kind (records, spans) and index into `words`; -1 for no request, as in the
    last column."""

    def codes_of(self, id_words: pa.Array, kind_words: pa.Array) -> I4:
        """int32[kind_words, id_words]: codes of requests; -1 for an unknown request.

        id_words, kind_words: dictionaries of a table's columns `request_id` and `kind`."""
        place = pc.index_in(id_words, value_set=self.words).fill_null(-1).to_numpy()
        of_spans = pc.equal(kind_words.cast(pa.string()), SPANS).to_numpy(zero_copy_only=False)
        return np.asarray(self.codes[of_spans.astype(np.int64)][:, place])


def request_ids(ids: pa.StringArray, of_spans: B1) -> RequestIds:
    """Codes of requests. ids: [requests], request ids. of_spans: bool[requests], True if the request is made
    of spans, False if of activity records."""
    coded = ids.dictionary_encode()
    at = of_spans.astype(np.int64), coded.indices.to_numpy()
    codes = np.full((2, len(coded.dictionary) + 1), -1, dtype=np.int32)
    codes[at] = 0
    there = np.flatnonzero(codes.ravel() == 0)
    codes.ravel()[there] = np.arange(len(there))
    return RequestIds(coded.dictionary, codes[at].astype(np.int64), codes)


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """Value of an attribute, with the requests that have it on any of their spans."""

    key: str
    value: str
    distinct: int
    """Number of distinct values that the attribute has."""
    rows: I8
    """int64[n]: indices of the requests that have the value, ascending."""


class ValueCounts(NamedTuple):
    """Values of attributes that occur, with the number of spans that have each; sorted by attribute."""

    keys: tuple[str, ...]
    """Names of the attributes."""
    words: pa.Array
    """Distinct texts of the values of all attributes."""
    key: I8
    """int64[values]: index into `keys` of the value's attribute, ascending."""
    word: I8
    """int64[values]: index into `words` of the value's text."""
    times: I8
    """int64[values]: number of spans that have the value."""

    @property
    def distinct(self) -> I8:
        """int64[attributes]: number of distinct values of each attribute."""
        return np.bincount(self.key, minlength=len(self.keys))

    def among(self, only: Collection[tuple[str, str]]) -> B1:
        """bool[values]: True if (attribute, value text) is in `only`."""
        texts = self.words.take(pa.array(self.word)).to_pylist()
        pairs = zip(self.key.tolist(), texts, strict=True)
        return np.array([(self.keys[key], text) in only for key, text in pairs], np.bool_)


def attribute_values(
    tables: Sequence[pa.Table],
    ids: RequestIds,
    wants: Callable[[str], bool],
    chosen: Callable[[ValueCounts], B1],
) -> list[AttributeValue]:
    """Values of attributes, with the requests that have them.

    tables: with the columns of PARAMS_AS_CODES. wants: returns True for the name of an attribute to read.
    chosen: returns bool[values], True for values to return. A number counts as a value only if it is whole.
    O(rows of the tables + values · requests).
    """
    said = _said(pa.concat_tables(tables), ids, wants)
    if said is None:
        return []
    keys, words, n_pairs = said.keys, said.words, len(said.keys) * len(said.words)
    kinds, times = _counted(said.pairs, n_pairs)
    counts = ValueCounts(tuple(keys), words, kinds // len(words), kinds % len(words), times)
    kept = np.flatnonzero(chosen(counts))
    texts = words.take(pa.array(counts.word[kept])).to_pylist()
    distinct = counts.distinct.tolist()
    rows = _rows_of(said, kinds, kept, n_pairs, ids)
    return [
        AttributeValue(keys[key], str(text), distinct[key], mine)
        for key, text, mine in zip(counts.key[kept].tolist(), texts, rows, strict=True)
    ]


class _Said(NamedTuple):
    """Rows of attribute tables that have a known request and a value, in parts that fit into a core's
    cache."""

    keys: list[str]
    """Names of attributes."""
    words: pa.Array
    """Texts of values."""
    requests: list[I4]
    """Codes of the rows' requests (`RequestIds.code`): an int32[rows] per part."""
    pairs: list[npt.NDArray[np.integer]]
    """Codes of the rows' keys and words, index into `keys` * len(words) + index into `words`: an int[rows]
    per part."""


def _said(table: pa.Table, ids: RequestIds, wants: Callable[[str], bool]) -> _Said | None:
    """Select the rows that have a wanted attribute, a known request and a value; None for an empty table."""
    coded = [c if pa.types.is_dictionary(c.type) else c.dictionary_encode() for c in table.columns]
    parts = pa.table(coded, names=table.column_names).unify_dictionaries().to_batches(FEW_CELLS)
    if not table.num_rows:
        return None
    codes = ids.codes_of(*(parts[0][name].dictionary for name in ("request_id", "kind")))
    keys = [str(word) for word in parts[0]["key"].dictionary.to_pylist()]
    wanted = np.array([wants(key) for key in keys], dtype=np.bool_)
    words, word_parts = _with_numbers(parts)
    wide = np.int32 if len(keys) * len(words) <= np.iinfo(np.int32).max else np.int64
    requests, pairs = [], []
    for part, word in zip(parts, word_parts, strict=True):
        request, kind, key = (part[name].indices.to_numpy() for name in ("request_id", "kind", "key"))
        code = codes[kind, request] if len(codes) > 1 else codes[0][request]
        pair = (np.arange(len(keys), dtype=wide) * len(words))[key] + word
        there = (code >= 0) & (word >= 0) & wanted[key]
        if not there.all():
            code, pair = code[there], pair[there]
        requests.append(code)
        pairs.append(pair)
    return _Said(keys, words, requests, pairs)


def _with_numbers(parts: Sequence[pa.RecordBatch]) -> tuple[pa.Array, list[I4]]:
    """(texts of values: the words of column `text`, then the whole numbers of column `num` as texts; for each
    part int32[rows] index into the texts, -1 for no value)."""
    text_words = parts[0]["text"].dictionary
    codes, found = [], []
    for part in parts:
        code = part["text"].indices.fill_null(-1).to_numpy().copy()
        number = part["num"].to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(code < 0)
        rows = rows[np.isfinite(number[rows]) & (number[rows] == np.rint(number[rows]))]
        codes.append(code)
        found.append((rows, number[rows]))
    numbers = np.unique(np.concatenate([np.unique(values) for _, values in found]))
    for code, (rows, values) in zip(codes, found, strict=True):
        code[rows] = len(text_words) + np.searchsorted(numbers, values)
    said = pa.array([f"{value:.0f}" for value in numbers.tolist()], pa.string())
    return pa.concat_arrays([text_words.cast(pa.string()), said]), codes


def _counted(pairs: Sequence[npt.NDArray[np.integer]], n_pairs: int) -> tuple[I8, I8]:
    """(int64[n] distinct pairs that occur, ascending; int64[n] number of rows with each pair)."""
    if n_pairs > _MOST_CELLS:
        kinds, times = np.unique(np.concatenate(pairs).astype(np.int64), return_counts=True)
        return kinds, times
    times = np.zeros(n_pairs, dtype=np.int64)
    for part in pairs:
        np.add.at(times, part, 1)
    kinds = np.flatnonzero(times)
    return kinds, times[kinds]


def _rows_of(said: _Said, kinds: I8, kept: I8, n_pairs: int, ids: RequestIds) -> Iterator[I8]:
    """Yield the indices of the requests, ascending, that have each of the pairs `kinds[kept]`.

    kinds: int64[pairs], distinct pairs, ascending."""
    value = np.full(len(kinds), -1, dtype=np.int32)
    value[kept] = np.arange(len(kept))
    of_pair = None
    if n_pairs <= _MOST_CELLS:
        of_pair = np.full(n_pairs, -1, dtype=np.int32)
        of_pair[kinds] = value
    n_codes = int(ids.code.max(initial=-1)) + 1
    for some in blocks(len(kept), n_codes, _MOST_FLAGS):
        flags = np.zeros((some.stop - some.start, n_codes), dtype=np.bool_)
        for code, pair in zip(said.requests, said.pairs, strict=True):
            of_row = value[np.searchsorted(kinds, pair)] if of_pair is None else of_pair[pair]
            inside = np.flatnonzero((of_row >= some.start) & (of_row < some.stop))
            flags[of_row[inside] - some.start, code[inside]] = True
        for mine in flags:
            yield np.flatnonzero(mine[ids.code])
