"""Recognise the format of a file, and the framing of its messages, from its first bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Set

from ingest import formats
from ingest.codecs.payloads import is_json, without_bom
from ingest.formats import Format
from ingest.framing import Fit, Framing, fit_of

_KEY = re.compile(r'"((?:[^"\\]|\\.){1,64})"\s*:')
_LINES_TRIED = 20
_HEAD_BYTES = 4 * 2**20
"""Looked at in JSON text: some lines, even long ones."""


def sniff_format(head: bytes, *, is_whole: bool) -> Format | None:
    """Format of a file that begins with `head` (decompressed; `is_whole`: all of it), or None.

    JSON is told by the keys of its first object, protobuf by walking its fields.
    """
    text = without_bom(head[:_HEAD_BYTES]).lstrip()
    if text[:1] in (b"{", b"["):
        return _format_of_json(text)
    # Perhaps the first line is damaged, and the others tell.
    for line in first_lines(text):
        if is_object_line(line) and (found := _format_of_json(line)) is not None:
            return found
    fit = _best_fit(head, formats.FORMATS, is_whole=is_whole)
    return None if fit is None else fit[0]


def framing_of(head: bytes, format_: Format, *, is_whole: bool) -> Framing | None:
    """The framing of a file of messages of a known format, or None."""
    found = _best_fit(head, (format_,), is_whole=is_whole)
    return None if found is None else found[1]


def _best_fit(head: bytes, rows: Iterable[Format], *, is_whole: bool) -> tuple[Format, Framing] | None:
    """The first perfect fit; else the one with the most bytes in frames that fit."""
    best, best_fit = None, Fit()
    for framing in Framing:
        for row in rows:
            fit = Fit() if row.shape is None else fit_of(head, framing, row.shape, is_whole=is_whole)
            if fit.n_bytes and fit.is_perfect:
                return row, framing
            if fit.n_bytes > best_fit.n_bytes:
                best, best_fit = (row, framing), fit
    return best


def is_lines(head: bytes) -> bool:
    """Whether JSON text is a value a line, rather than one document.

    The first line decides if it is a value; if not (it may be damaged), most of the first must be objects.
    """
    text = without_bom(head[:_HEAD_BYTES]).lstrip()
    lines = first_lines(text)
    if not lines:
        return False
    if text[:1] == b"{" and is_object_line(lines[0]):
        return True
    if text[:1] == b"[" and is_json(lines[0]):
        return True
    return 2 * sum(is_object_line(line) for line in lines) > len(lines)


def first_lines(text: bytes) -> list[bytes]:
    """Complete lines (or the only one), not blank, a few."""
    lines = text.split(b"\n", 10 * _LINES_TRIED)
    if len(lines) > 1:
        lines.pop()
    return [line for line in lines if line and not line.isspace()][:_LINES_TRIED]


def is_object_line(line: bytes) -> bool:
    """One complete JSON object from the first column on."""
    return line.startswith(b"{") and is_json(line)


def _format_of_json(text: bytes) -> Format | None:
    keys = _keys_of_first_object(text.decode("utf-8", "replace"))
    return next((row for row in formats.FORMATS if any(signs <= keys for signs in row.keys)), None)


def _keys_of_first_object(text: str) -> Set[str]:
    """Keys of the outermost object, or of the first in a list; of all objects seen if it is cut off.

    Those of what it wraps as its `trace` are among them.
    """
    start = text.find("{")
    if start < 0 or text[:start].strip(" \t\r\n["):
        return frozenset()
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return frozenset(_KEY.findall(text))
    wrapped = value.get("trace")
    return frozenset(value) | frozenset(wrapped if isinstance(wrapped, dict) else ())
