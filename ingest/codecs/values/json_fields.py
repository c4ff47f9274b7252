"""Read items of JSON documents and their fields, with a check of each field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.payloads import documents_of, json_bytes, parse_json
from schemas.rejects import Reason, Reject

Object = dict[str, object]

ItemsOf = Callable[[object], Iterable[object]]
"""Function from a parsed document to its items (spans or reports); raises ItemError if the document is not of
the format."""
AddItem = Callable[[int, int, object], None]
"""Function (payload, item, value) that adds one item, or raises ItemError before it adds anything."""

_WHOLE = re.compile(r"-?[0-9]{1,20}")
"""Pattern of an integer's text; 20 digits suffice for any 64-bit number."""


class ItemError(Exception):
    """An item or document of a payload does not have the expected format."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def read_items(
    payloads: Sequence[bytes], indexes: Sequence[int], items_of: ItemsOf, add: AddItem, log: RejectLog
) -> None:
    """Pass every item of the payloads at `indexes` to `add`; refused items are added to `log`.

    Items are numbered through a payload, over all its documents; an invalid document counts as one item.
    """
    for payload in indexes:
        item = 0
        for document in documents_of(payloads[payload]):
            value = parse_json(document, payload, item)
            if isinstance(value, Reject):
                log.add(value)
                item += 1
                continue
            try:
                entries = list(items_of(value))
            except ItemError as error:
                refuse(log, error, value, payload, item)
                item += 1
                continue
            for entry in entries:
                try:
                    add(payload, item, entry)
                except (ItemError, RecursionError) as error:
                    refuse(log, error, entry, payload, item)
                item += 1


def refuse(log: RejectLog, error: ItemError | RecursionError, value: object, payload: int, item: int) -> None:
    """Add a refused item to `log`, as JSON; a RecursionError means that the item is nested too deep."""
    if isinstance(error, ItemError):
        reason, detail = error.reason, error.detail
    else:
        reason, detail = Reason.TOO_DEEP, "nested too deep"
    if log.is_full:
        log.count(reason)
    else:
        log.add(Reject(reason, detail, json_bytes(value), payload, item))


def as_object(value: object, what: str) -> Object:
    """Return `value` if it is an object; what: its name in error messages. Raises ItemError."""
    if not isinstance(value, dict):
        raise ItemError(Reason.WRONG_SHAPE, f"{what} is not an object")
    return value


def child(parent: Object, name: str) -> Object:
    """Object in the field `name` of `parent`; empty if absent. Raises ItemError."""
    value = parent.get(name)
    return {} if value is None else as_object(value, name)


def array(parent: Object, name: str, *, required: bool = False) -> list[object]:
    """Array in the field `name` of `parent`; if absent, empty unless `required`. Raises ItemError."""
    value = parent.get(name)
    if value is None and not required:
        return []
    if not isinstance(value, list):
        raise ItemError(Reason.WRONG_SHAPE, f"{name} is missing or not an array")
    return value


def text(parent: Object, name: str) -> str | None:
    """String in the field `name` of `parent`; None if absent. Raises ItemError."""
    value = parent.get(name)
    if value is None or isinstance(value, str):
        return value
    raise ItemError(Reason.BAD_TYPE, f"{name} is not a string")


def integer(value: object, name: str) -> int:
    """Integer given as a number or as text; name: name of the field in error messages. Raises ItemError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**64:
        return int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise ItemError(Reason.BAD_TYPE, f"{name} is not a whole number")
