"""Find the requests that have each value of attributes, from codes, with bounds on attributes and values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I4, I8
from schemas.lake import SPANS
from stitch.columnar.runs import group_stably

_MOST_CELLS: Final = 1 << 23
"""Maximum number of (key, word) pairs counted in a table, of 64 MB; more are sorted."""


@dataclass(frozen=True, slots=True)
class RequestIds:
    """Ids that join requests with attributes. Several requests may share one: a request and the messages that
    it sent. If an id has both spans and records, these are two unrelated requests."""

    words: pa.StringArray
    """Distinct ids."""
    code: I8
    """[requests] 2 * index into `words`, plus 1 for a request made of spans."""

    def codes_of(self, id_words: pa.Array, kind_words: pa.Array) -> tuple[I8, I8]:
        """([ids], [kinds]) summands whose sum is the request's code (see `code`); below 0: no known request.
        Arguments: distinct words of a table's `request_id` and `kind`."""
        place = pc.index_in(id_words, value_set=self.words).fill_null(-1).to_numpy().astype(np.int64)
        return 2 * place, pc.equal(kind_words.cast(pa.string()), SPANS).to_numpy(zero_copy_only=False).astype(
            np.int64
        )


def request_ids(ids: pa.StringArray, of_spans: B1) -> RequestIds:
    """Number the ids of requests; of_spans: [requests] True if made of spans."""
    coded = ids.dictionary_encode()
    return RequestIds(coded.dictionary, 2 * coded.indices.to_numpy().astype(np.int64) + of_spans)


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
    key, distinct = counts.key, counts.distinct
    kept = chosen(counts)
    number = np.full(len(kinds), -1, dtype=np.int32)
    number[kept] = np.arange(int(kept.sum()))
    code, request = _numbered(said, kinds, number, n_pairs)
    order, first = group_stably(code, int(kept.sum()))
    request = request[order]
    texts = words.take(pa.array(kinds[kept] % len(words))).to_pylist()
    found = []
    flags = np.zeros(2 * len(ids.words), dtype=np.bool_)
    for at, (begin, end) in enumerate(pairwise(first.tolist())):
        mine = request[begin:end]
        flags[mine] = True
        rows = np.flatnonzero(flags[ids.code])
        flags[mine] = False
        which = int(key[kept][at])
        found.append(AttributeValue(keys[which], str(texts[at]), int(distinct[which]), rows))
    return found


class _Said(NamedTuple):
    """Attributes of requests, in parts, so that the arrays derived from a part fit into a core's cache."""

    keys: list[str]
    words: pa.Array
    requests: list[I8]
    """Parts of [rows], codes as in `RequestIds.code`."""
    pairs: list[I8]
    """Parts of [rows], key * len(words) + word."""


def _said(table: pa.Table, ids: RequestIds, wants: Callable[[str], bool]) -> _Said | None:
    """Read the rows with a known request and a value; None if the tables have no row."""
    coded = [c if pa.types.is_dictionary(c.type) else c.dictionary_encode() for c in table.columns]
    parts = pa.table(coded, names=table.column_names).unify_dictionaries().to_batches()
    if not table.num_rows:
        return None
    of_id, of_kind = ids.codes_of(*(parts[0][name].dictionary for name in ("request_id", "kind")))
    keys = [str(word) for word in parts[0]["key"].dictionary.to_pylist()]
    wanted = np.array([wants(key) for key in keys], dtype=np.bool_)
    words, word_parts = _with_numbers(parts)
    requests, pairs = [], []
    for part, word in zip(parts, word_parts, strict=True):
        request, kind, key = (part[name].indices.to_numpy() for name in ("request_id", "kind", "key"))
        code = of_id[request] + of_kind[kind]
        there = np.flatnonzero((code >= 0) & (word >= 0) & wanted[key])
        requests.append(code[there])
        pairs.append(key[there].astype(np.int64) * len(words) + word[there])
    return _Said(keys, words, requests, pairs)


def _with_numbers(parts: Sequence[pa.RecordBatch]) -> tuple[pa.Array, list[I8]]:
    """(words, with whole numbers appended as text; parts of [rows] index into the words, -1 for no value)."""
    text_words = parts[0]["text"].dictionary
    codes, found = [], []
    for part in parts:
        code = part["text"].indices.fill_null(-1).to_numpy().astype(np.int64)
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


def _counted(pairs: Sequence[I8], n_pairs: int) -> tuple[I8, I8]:
    """(pairs that occur, ascending; number of rows of each)."""
    if n_pairs > _MOST_CELLS:
        return np.unique(np.concatenate(pairs), return_counts=True)
    times = np.zeros(n_pairs, dtype=np.int64)
    for part in pairs:
        np.add.at(times, part, 1)
    kinds = np.flatnonzero(times)
    return kinds, times[kinds]


def _numbered(said: _Said, kinds: I8, number: I4, n_pairs: int) -> tuple[I4, I8]:
    """(number of the pair, request) of each row whose pair has a number. number: [kinds] number of each pair
    in `kinds`, -1 for none."""
    of_pair = None
    if n_pairs <= _MOST_CELLS:
        of_pair = np.full(n_pairs, -1, dtype=np.int32)
        of_pair[kinds] = number
    codes, requests = [], []
    for request, pair in zip(said.requests, said.pairs, strict=True):
        code = number[np.searchsorted(kinds, pair)] if of_pair is None else of_pair[pair]
        inside = np.flatnonzero(code >= 0)
        codes.append(code[inside])
        requests.append(request[inside])
    return np.concatenate(codes), np.concatenate(requests)
