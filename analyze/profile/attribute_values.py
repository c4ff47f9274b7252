"""Find the requests that have each value of attributes, from codes, with bounds on attributes and values."""

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
"""Maximum number of (key, word) pairs counted in a table, of 64 MB; more are sorted."""
_MOST_FLAGS: Final = 1 << 26
"""Maximum number of (value, request) flags made at once, of 64 MB."""


@dataclass(frozen=True, slots=True)
class RequestIds:
    """Ids that join requests with attributes. Several requests may share one: a request and the messages that
    it sent. If an id has both spans and records, these are two unrelated requests."""

    words: pa.StringArray
    """Distinct ids."""
    number: I8
    """[requests] number of the request's id and kind, from 0."""
    numbers: I4
    """int32[2, words + 1] number by kind (records, spans) and word; -1 for no request, as in the last
    column."""

    def numbers_of(self, id_words: pa.Array, kind_words: pa.Array) -> I4:
        """int32[kinds, ids] numbers (see `number`); -1 for no known request. Arguments: distinct words of a
        table's `request_id` and `kind`."""
        place = pc.index_in(id_words, value_set=self.words).fill_null(-1).to_numpy()
        of_spans = pc.equal(kind_words.cast(pa.string()), SPANS).to_numpy(zero_copy_only=False)
        return np.asarray(self.numbers[of_spans.astype(np.int64)][:, place])


def request_ids(ids: pa.StringArray, of_spans: B1) -> RequestIds:
    """Number the ids of requests; of_spans: [requests] True if made of spans."""
    coded = ids.dictionary_encode()
    at = of_spans.astype(np.int64), coded.indices.to_numpy()
    numbers = np.full((2, len(coded.dictionary) + 1), -1, dtype=np.int32)
    numbers[at] = 0
    there = np.flatnonzero(numbers.ravel() == 0)
    numbers.ravel()[there] = np.arange(len(there))
    return RequestIds(coded.dictionary, numbers[at].astype(np.int64), numbers)


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """Value of an attribute, with the requests that have it on any of their spans."""

    key: str
    value: str
    distinct: int
    """Number of values of the attribute."""
    rows: I8
    """Indices of the requests that have the value, ascending."""


class ValueCounts(NamedTuple):
    """Values that occur; arrays are [values], ascending by attribute."""

    keys: tuple[str, ...]
    """[attributes] names."""
    words: pa.Array
    key: I8
    """Index into `keys`."""
    word: I8
    """Index into `words`."""
    times: I8
    """Number of spans that have the value."""

    @property
    def distinct(self) -> I8:
        """[attributes] number of values."""
        return np.bincount(self.key, minlength=len(self.keys))

    def among(self, only: Collection[tuple[str, str]]) -> B1:
        """[values] True for those in `only`, (attribute, value) pairs."""
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

    tables: rows of PARAMS_AS_CODES. wants: True if an attribute is read. chosen: [values] True for values to
    return. Numbers that are not whole are not values. O(rows of the tables, and values x requests).
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
    """Attributes of requests, in parts, so that the arrays derived from a part fit into a core's cache."""

    keys: list[str]
    words: pa.Array
    requests: list[I4]
    """Parts of [rows], numbers as in `RequestIds.number`."""
    pairs: list[npt.NDArray[np.integer]]
    """Parts of [rows], key * len(words) + word."""


def _said(table: pa.Table, ids: RequestIds, wants: Callable[[str], bool]) -> _Said | None:
    """Read the rows with a known request and a value; None if the tables have no row."""
    coded = [c if pa.types.is_dictionary(c.type) else c.dictionary_encode() for c in table.columns]
    parts = pa.table(coded, names=table.column_names).unify_dictionaries().to_batches(FEW_CELLS)
    if not table.num_rows:
        return None
    numbers = ids.numbers_of(*(parts[0][name].dictionary for name in ("request_id", "kind")))
    keys = [str(word) for word in parts[0]["key"].dictionary.to_pylist()]
    wanted = np.array([wants(key) for key in keys], dtype=np.bool_)
    words, word_parts = _with_numbers(parts)
    wide = np.int32 if len(keys) * len(words) <= np.iinfo(np.int32).max else np.int64
    requests, pairs = [], []
    for part, word in zip(parts, word_parts, strict=True):
        request, kind, key = (part[name].indices.to_numpy() for name in ("request_id", "kind", "key"))
        number = numbers[kind, request] if len(numbers) > 1 else numbers[0][request]
        pair = (np.arange(len(keys), dtype=wide) * len(words))[key] + word
        there = (number >= 0) & (word >= 0) & wanted[key]
        if not there.all():
            number, pair = number[there], pair[there]
        requests.append(number)
        pairs.append(pair)
    return _Said(keys, words, requests, pairs)


def _with_numbers(parts: Sequence[pa.RecordBatch]) -> tuple[pa.Array, list[I4]]:
    """(words, with whole numbers appended as text; parts of [rows] index into the words, -1 for no value)."""
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
    """(pairs that occur, ascending; number of rows of each)."""
    if n_pairs > _MOST_CELLS:
        kinds, times = np.unique(np.concatenate(pairs).astype(np.int64), return_counts=True)
        return kinds, times
    times = np.zeros(n_pairs, dtype=np.int64)
    for part in pairs:
        np.add.at(times, part, 1)
    kinds = np.flatnonzero(times)
    return kinds, times[kinds]


def _rows_of(said: _Said, kinds: I8, kept: I8, n_pairs: int, ids: RequestIds) -> Iterator[I8]:
    """Yield the requests, ascending, of each of the pairs `kinds[kept]`."""
    value = np.full(len(kinds), -1, dtype=np.int32)
    value[kept] = np.arange(len(kept))
    of_pair = None
    if n_pairs <= _MOST_CELLS:
        of_pair = np.full(n_pairs, -1, dtype=np.int32)
        of_pair[kinds] = value
    n_numbers = int(ids.number.max(initial=-1)) + 1
    for some in blocks(len(kept), n_numbers, _MOST_FLAGS):
        flags = np.zeros((some.stop - some.start, n_numbers), dtype=np.bool_)
        for number, pair in zip(said.requests, said.pairs, strict=True):
            of_row = value[np.searchsorted(kinds, pair)] if of_pair is None else of_pair[pair]
            inside = np.flatnonzero((of_row >= some.start) & (of_row < some.stop))
            flags[of_row[inside] - some.start, number[inside]] = True
        for mine in flags:
            yield np.flatnonzero(mine[ids.number])
