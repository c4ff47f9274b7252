"""Build the column `params`: attributes of spans, resources and span events, sorted by key and limited in
number.

Spans of one instrumentation have the same keys in the same order. So sorting, dropping, cutting and removing
duplicates are worked out once per distinct sequence of keys, and applied to all spans that have it. This is
about twice as fast as sorting (owner, key) pairs, and never much slower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.privacy import REDACTED, Keep, Privacy, privacy_of
from ingest.codecs.values.attributes import AttributeTable, number_text
from ingest.codecs.values.columns import list_column
from ingest.codecs.values.ids import text_offsets
from ingest.codecs.values.names import NUL_MARK, cut_utf8
from schemas.arrays import I4, I8
from schemas.config import DecodeConfig
from schemas.events import PARAM_TYPE

_BRACE, _BRACKET = ord("{"), ord("[")
_WEIGHT_SEED = 20_261_120


def params_column(
    n_rows: int, tables: Sequence[AttributeTable], config: DecodeConfig, oddities: Counter[str]
) -> pa.Array:
    """[rows] list of the row's parameters, `list<PARAM_TYPE>`, sorted by key; null where a row has none.

    If a key occurs several times in a row, the first value is kept (first table first); the others are
    dropped and counted as `duplicate-param`. Limits: `max_text_bytes`, `max_name_bytes` of keys,
    `max_params_per_event`; NUL characters are replaced. O(attributes + distinct key sequences · their
    length).
    """
    tables = [t for t in tables if len(t)]
    if not tables:
        return pa.nulls(n_rows, pa.list_(PARAM_TYPE))
    names, codes = _shared_keys(tables, config, oddities)
    lengths, code, source = _side_by_side(n_rows, tables, codes)
    sequence, first_owner = _sequences(lengths, code)
    keep, count = _kept(lengths, code, first_owner, config, np.bincount(sequence), oddities)
    lengths_out = count[sequence]
    slot = np.repeat((np.cumsum(count) - count)[sequence] - _begin(lengths_out), lengths_out)
    slot += np.arange(len(slot))
    index = np.repeat(_begin(lengths), lengths_out) + keep[slot]
    key = code[index]
    row = pa.array(source[index])
    num = pa.concat_arrays([t.num for t in tables]).take(row)
    text = pa.concat_arrays([t.text for t in tables]).dictionary_encode()
    text = pa.DictionaryArray.from_arrays(text.indices.take(row), text.dictionary)
    return list_column(lengths_out, param_values(names, key.astype(np.int32), num, text, config, oddities))


def param_values(
    names: list[str],
    key: I4,
    num: pa.Array,
    text: pa.DictionaryArray,
    config: DecodeConfig,
    oddities: Counter[str],
) -> pa.StructArray:
    """Build [params] PARAM_TYPE from keys and values: values are redacted or hashed as the rules for their
    keys require; texts are freed of secrets, cleaned and cut.

    key: [params] index into `names`. num, text: [params] value; exactly one is not null.
    """
    privacy = privacy_of(config.params)
    words = _without_secrets(text.dictionary, privacy)
    text = pa.DictionaryArray.from_arrays(text.indices, words)
    num, text = _hidden(num, text, np.array([privacy.keep(k) for k in names], np.uint8)[key], privacy)
    text = clean_text(text, config, oddities)
    keys = pa.DictionaryArray.from_arrays(pa.array(key), pa.array(names, pa.string()))
    return pa.StructArray.from_arrays([keys, num, text], fields=list(PARAM_TYPE))


def _begin(lengths: I8) -> I8:
    """Start offset of each run, from the run lengths."""
    out: I8 = np.cumsum(lengths) - lengths
    return out


def _side_by_side(n_rows: int, tables: Sequence[AttributeTable], codes: Sequence[I8]) -> tuple[I8, I8, I8]:
    """Merge the attributes of all tables row by row: ([n_rows] number of attributes, key codes, indices of
    the values). codes: key code of each attribute, per table."""
    counts = [np.bincount(t.owner, minlength=n_rows) for t in tables]
    lengths = np.sum(counts, axis=0)
    total = int(lengths.sum())
    code, source = np.empty(total, np.int64), np.empty(total, np.int64)
    free = _begin(lengths)
    base = 0
    for table, table_code, count in zip(tables, codes, counts, strict=True):
        slot = np.repeat(free - _begin(count), count) + np.arange(len(table))
        code[slot] = table_code
        source[slot] = base + (np.arange(len(table)) if table.row is None else table.row)
        free = free + count
        base += len(table.num)
    return lengths, code, source


def _sequences(lengths: I8, code: I8) -> tuple[I8, I8]:
    """Find distinct sequences of keys: ([rows] number of the row's key sequence, [sequences] index of one row
    that has it).

    A sequence is identified by a sum with random weights modulo 2^64 (collision: 2^-64 per pair).
    """
    place = np.arange(len(code)) - np.repeat(_begin(lengths), lengths)
    random = np.random.default_rng(_WEIGHT_SEED)
    by_place = random.integers(1, 2**63, int(lengths.max(initial=0)) + 1, np.int64) | 1
    by_code = random.integers(1, 2**63, int(code.max(initial=0)) + 2, np.int64)
    prefix = np.zeros(len(code) + 1, np.int64)
    np.cumsum(by_place[place] * by_code[code], out=prefix[1:])
    ends = np.cumsum(lengths)
    digest = prefix[ends] - prefix[ends - lengths]
    _, first, inverse = np.unique(digest, return_index=True, return_inverse=True)
    return inverse.astype(np.int64), first.astype(np.int64)


def _kept(
    lengths: I8, code: I8, rows: I8, config: DecodeConfig, weight: I8, oddities: Counter[str]
) -> tuple[I8, I8]:
    """Choose which attributes of each key sequence are kept: (kept positions, in key order, concatenated over
    all sequences; [sequences] number of kept positions).

    rows: [sequences] a row that has the sequence. weight: [sequences] number of rows that have it, for
    counting oddities. One sort over the distinct sequences.
    """
    size = lengths[rows]
    sequence = np.repeat(np.arange(len(rows)), size)
    place = np.arange(len(sequence)) - np.repeat(_begin(size), size)
    its_code = code[np.repeat(_begin(lengths)[rows], size) + place]
    order = np.lexsort((place, its_code, sequence))
    sequence, its_code, place = sequence[order], its_code[order], place[order]
    keep = its_code >= 0
    again = np.zeros(len(keep), np.bool_)
    again[1:] = (sequence[1:] == sequence[:-1]) & (its_code[1:] == its_code[:-1]) & keep[1:]
    oddities["duplicate-param"] += int(weight[sequence[again]].sum())
    keep &= ~again
    sequence, place = sequence[keep], place[keep]
    count = np.bincount(sequence, minlength=len(rows))
    over = np.arange(len(sequence)) - np.repeat(_begin(count), count) >= config.max_params_per_event
    oddities["params-dropped"] += int(weight[sequence[over]].sum())
    return place[~over], np.minimum(count, config.max_params_per_event)


def _shared_keys(
    tables: Sequence[AttributeTable], config: DecodeConfig, oddities: Counter[str]
) -> tuple[list[str], list[I8]]:
    """Merge the keys of all tables: (kept keys, sorted; for each table [attributes] index of the attribute's
    key, -1: dropped)."""
    privacy = privacy_of(config.params)
    cleaned = [[cut_utf8(k.replace("\0", NUL_MARK), config.max_name_bytes) for k in t.keys] for t in tables]
    names = sorted({k for keys in cleaned for k in keys if privacy.keep(k) != Keep.DROPPED})
    rank = {k: i for i, k in enumerate(names)}
    codes = []
    for table, keys in zip(tables, cleaned, strict=True):
        new = np.array([rank.get(k, -1) for k in keys], np.int64)
        codes.append(new[table.code])
        changed = np.array([a != b for a, b in zip(keys, table.keys, strict=True)], np.bool_)
        if changed.any():
            oddities["key-cut"] += int(changed[table.code].sum())
    return names, codes


def _without_secrets(text: pa.Array, privacy: Privacy) -> pa.Array:
    """Remove secrets inside nested values (JSON) from an array of texts. O(bytes of the nested values)."""
    data = text.buffers()[2]
    if data is None or len(data) == 0:
        return text
    bytes_ = np.frombuffer(data, np.uint8)
    begin = text_offsets(text)
    first = bytes_[np.minimum(begin[:-1], len(bytes_) - 1)]
    # For an empty text this is the first byte of the next one; it does not parse, and stays.
    at = (first == _BRACE) | (first == _BRACKET)
    if not at.any():
        return text
    nested = pa.array(at)
    before = text.filter(nested).to_pylist()
    after = [privacy.clean_text(t) for t in before]
    return text if before == after else pc.replace_with_mask(text, nested, pa.array(after, pa.string()))


def _hidden(
    num: pa.Array, text: pa.DictionaryArray, keep: npt.NDArray[np.uint8], privacy: Privacy
) -> tuple[pa.Array, pa.DictionaryArray]:
    """Redact or hash secret values: (num, text), in which these are text. keep: [params] value of Keep."""
    if not keep.any():
        return num, text
    hidden = keep != Keep.PLAIN
    plain = text.dictionary_decode()
    at = np.flatnonzero(keep == Keep.HASHED)
    values = pc.coalesce(plain.take(pa.array(at)), number_text(num.take(pa.array(at)))).dictionary_encode()
    hashes = pa.array([privacy.hashed(t) for t in values.dictionary.to_pylist()], pa.string())
    shown = np.full(int(hidden.sum()), REDACTED, object)
    shown[keep[hidden] == Keep.HASHED] = hashes.take(values.indices).to_pylist()
    plain = pc.replace_with_mask(plain, pa.array(hidden), pa.array(shown, pa.string()))
    return pc.if_else(pa.array(hidden), None, num), plain.dictionary_encode()


def clean_text(text: pa.DictionaryArray, config: DecodeConfig, oddities: Counter[str]) -> pa.DictionaryArray:
    """Replace NUL in text values, and cut them to `max_text_bytes`; changed rows are counted in `oddities`.

    O(bytes of the words); Python runs per word only if any word changes.
    """
    words = text.dictionary
    data = words.buffers()[2]
    if data is None:
        return text
    has_nul = len(data) > 0 and not np.frombuffer(data, np.uint8).all()
    size = pc.binary_length(words).to_numpy(zero_copy_only=False)
    if not has_nul and not (size > config.max_text_bytes).any():
        return text
    rows = np.bincount(text.indices.drop_null().to_numpy(), minlength=len(words))
    before = words.to_pylist()
    without_nul = [word.replace("\0", NUL_MARK) for word in before]
    short = [cut_utf8(word, config.max_text_bytes) for word in without_nul]
    oddities["nul-replaced"] += _n_changed(before, without_nul, rows)
    oddities["text-cut"] += _n_changed(without_nul, short, rows)
    return pa.DictionaryArray.from_arrays(text.indices, pa.array(short, pa.string()))


def _n_changed(before: list[str], after: list[str], rows: I8) -> int:
    """Number of rows whose word changed from `before` to `after`. rows: [words] number of rows with each
    word."""
    return sum(n for a, b, n in zip(before, after, rows.tolist(), strict=True) if a != b)
