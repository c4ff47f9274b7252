"""Replace ids in names by placeholders, and process dictionary columns once per distinct value."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

NUL_MARK = "\N{REPLACEMENT CHARACTER}"

_UUID = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9A-Za-z])")
_IPV4 = re.compile(r"(?<![0-9A-Za-z.])\d{1,3}(?:\.\d{1,3}){3}(?![0-9A-Za-z.])")
# Eight digits or more with at least one decimal digit: `deadbeef` and `feedback` are words.
_HEX = re.compile(
    r"(?<![0-9A-Za-z])(?:0x)?(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}(?![0-9A-Za-z])"
)
# A number stands alone: `v2`, `http2`, `p99`, `oauth2` keep theirs.
_NUMBER = re.compile(r"(?<![0-9A-Za-z])\d+(?![0-9A-Za-z])")

_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s,;'\"\])]+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w{}])/(?:[^\s/,;:'\"()\[\]]+/)*[^\s/,;:'\"()\[\]]+")
_LONG_ID = re.compile(r"[A-Za-z]*_-?\d[\w-]*")
_DIGITS = re.compile(r"\d+")


def normalise_name(name: str) -> str:
    """Replace UUIDs, addresses, long hexadecimal numbers and separate numbers in a span name by placeholders.

    `GET /users/17/orders` → `GET /users/{n}/orders`. Idempotent.
    """
    if not any(c.isdigit() for c in name):
        return name
    name = _UUID.sub("{uuid}", name)
    name = _IPV4.sub("{ip}", name)
    name = _HEX.sub("{hex}", name)
    return _NUMBER.sub("{n}", name)


def normalise_label(label: str) -> str:
    """Turn free text (a log message) into a category name: like `normalise_name`, and URLs, paths and all
    digits are replaced too.

    Log texts have ids attached to words (`blk_-3112`, `attempt_1364_r_0`), so numbers need not be separate.
    """
    label = _URL.sub("{url}", label)
    label = _UUID.sub("{uuid}", label)
    label = _PATH.sub("{path}", label)
    label = _IPV4.sub("{ip}", label)
    label = _HEX.sub("{hex}", label)
    label = _LONG_ID.sub("{id}", label)
    return _DIGITS.sub("{n}", label)


def cut_utf8(text: str, max_bytes: int) -> str:
    """Longest prefix of `text` that takes at most `max_bytes` bytes in UTF-8."""
    if len(text) * 4 <= max_bytes:
        return text
    data = text.encode()
    return text if len(data) <= max_bytes else data[:max_bytes].decode("utf-8", "ignore")


def words(column: pa.Array) -> pa.DictionaryArray:
    """Convert a column to `dictionary<int32, string>`."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def constant_words(word: str | None, n: int) -> pa.DictionaryArray:
    """Dictionary array with the same word, or null, in all of `n` rows."""
    if word is None:
        return pa.DictionaryArray.from_arrays(pa.nulls(n, pa.int32()), pa.array([], pa.string()))
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([word]))


def coded_words(codes: npt.NDArray[np.int32], texts: pa.StringArray) -> pa.DictionaryArray:
    """Dictionary array of the words `texts[codes]`; null for negative codes.

    The codes of nulls are set to 0, because Arrow also looks up the codes of nulls when it unifies
    dictionaries, wherever they point.
    """
    missing = codes < 0
    if missing.any():
        return pa.DictionaryArray.from_arrays(pa.array(np.where(missing, 0, codes), mask=missing), texts)
    return pa.DictionaryArray.from_arrays(pa.array(codes), texts)


def map_words(column: pa.DictionaryArray, change: Callable[[str], str]) -> pa.DictionaryArray:
    """Apply `change` to each distinct word of a column; words that become equal share one code. O(rows +
    distinct words)."""
    before = column.dictionary.to_pylist()
    after = [change(w) for w in before]
    distinct = {w: i for i, w in enumerate(dict.fromkeys(after))}
    if before == list(distinct):
        return column
    code = pa.array([distinct[w] for w in after], pa.int32())
    return pa.DictionaryArray.from_arrays(code.take(column.indices), pa.array(list(distinct), pa.string()))


def clean_words(
    column: pa.DictionaryArray, max_bytes: int, oddities: Counter[str], change: Callable[[str], str] = str
) -> pa.DictionaryArray:
    """Prepare words for storage: replace NUL, apply `change`, cut to `max_bytes`. The number of changed rows
    is added to `oddities`."""
    texts = column.dictionary.to_pylist()
    _count(column, [i for i, w in enumerate(texts) if "\0" in w], "nul-replaced", oddities)
    long = [i for i, w in enumerate(texts) if len(w) * 4 > max_bytes and len(w.encode()) > max_bytes]
    _count(column, long, "name-cut", oddities)
    return map_words(column, lambda word: clean_word(word, max_bytes, change))


def clean_word(word: str, max_bytes: int, change: Callable[[str], str] = str) -> str:
    """Prepare one word for storage: replace NUL, apply `change`, cut to `max_bytes`.

    It is also cut before `change`: normalising 100 kB for a name of which 256 bytes are kept is wasted work.
    """
    return cut_utf8(change(cut_utf8(word, 4 * max_bytes).replace("\0", NUL_MARK)), max_bytes)


def point_name(name: str) -> str:
    """Point name for a span's name: the normalised name, `?` if it is empty."""
    return normalise_name(name) or "?"


def _count(column: pa.DictionaryArray, codes: list[int], what: str, oddities: Counter[str]) -> None:
    if codes:
        hits = pc.is_in(column.indices, pa.array(codes, pa.int32()))
        oddities[what] += int(pc.sum(hits).as_py() or 0)
