"""Fields of decoded JSON objects, checked one by one: for formats that are read item by item."""

from __future__ import annotations

import re

from ingest.codecs.payloads import json_bytes
from schemas.rejects import Reason, Reject

Object = dict[str, object]

_WHOLE = re.compile(r"-?[0-9]{1,20}")
"""20 digits hold any 64-bit number."""


class ItemError(Exception):
    """One item of a payload is not what the format says."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail

    def reject(self, raw: object, payload: int, item: int) -> Reject:
        """As a dead letter with the item written out again."""
        return Reject(self.reason, self.detail, json_bytes(raw), payload, item)


def too_deep(raw: object, payload: int, item: int) -> Reject:
    """A dead letter for an item whose nesting exhausts the recursion limit."""
    return Reject(Reason.TOO_DEEP, "nested too deep", json_bytes(raw), payload, item)


def as_object(value: object, what: str) -> Object:
    """`value` if it is an object. Raises ItemError."""
    if not isinstance(value, dict):
        raise ItemError(Reason.WRONG_SHAPE, f"{what} is not an object")
    return value


def child(parent: Object, name: str) -> Object:
    """The object under `name`; empty if absent. Raises ItemError."""
    value = parent.get(name)
    return {} if value is None else as_object(value, name)


def array(parent: Object, name: str, *, required: bool = False) -> list[object]:
    """The array under `name`; empty if absent. Raises ItemError."""
    value = parent.get(name)
    if value is None and not required:
        return []
    if not isinstance(value, list):
        raise ItemError(Reason.WRONG_SHAPE, f"{name} is missing or not an array")
    return value


def text(parent: Object, name: str) -> str | None:
    """The string under `name`, or None. Raises ItemError."""
    value = parent.get(name)
    if value is None or isinstance(value, str):
        return value
    raise ItemError(Reason.BAD_TYPE, f"{name} is not a string")


def integer(value: object, name: str) -> int:
    """A whole number or its text. Raises ItemError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**64:
        return int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise ItemError(Reason.BAD_TYPE, f"{name} is not a whole number")
