"""Payloads near a given one: bytes changed, JSON values changed or named twice, a few items, a great many."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

_SPLICES: Final = [
    *(b"null", b"{}", b"[]", b'""', b"-1", b"1e400", b"99999999999999999999", b"NaN", b"true"),
    *(b"\\ud800", b"\\u0000", b"\x00", b"\xff", b'"', b"\\", b",", b":", b"{", b"}", b"[", b"]", b"\n"),
    *(b"\xe2\x80\xae", b"\x0a", b"\x12\x08"),
]
_VALUES: Final = [
    *(b"null", b"true", b"false", b"0", b"-1", b"1.5", b"-0.0", b"1e308", b"1e-320", b"2147483648"),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616"),
    *(b'""', b'"0"', b'"-1"', b'"x"', b'"NaN"', b'"9223372036854775808"', b'"0000000000000000"'),
    *(
        b'"\\u0000"',
        b'"\\u202e"',
        b'"a\\u0000b"',
        b'"' + b"y" * 300 + b'"',
        b'"' + b"\xc3\xa9" * 2_100 + b'"',
    ),
    *(b"[]", b"{}", b"[[]]", b"[null]", b"[{}]", b'{"":null}', b'["a","b"]', b'{"a":[{"b":{}}]}'),
    *(
        b"[" * 60 + b"]" * 60,
        b'"1970-01-01T00:00:00Z"',
        b'"9999-12-31T23:59:59.999999999Z"',
        b'"-1s"',
        b'"AAA="',
    ),
]
"""What a JSON value is changed for: the document stays well-formed, what it says does not."""
_DEEP: Final = [b"[" * 600 + b"]" * 600, b'{"a":' * 600 + b"1" + b"}" * 600]
"""Deeper than calls of Python may be that take two frames a level; parsers refuse about 1,000 levels."""
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null')


def mutants(seed: bytes, rng: random.Random, n: int) -> Iterator[bytes]:
    """`n` payloads near `seed`: cut, spliced, bytes changed, doubled."""
    for _ in range(n):
        data = bytearray(seed)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(data) + 1)
            what = rng.randrange(6)
            if what == 0:
                del data[at:]
            elif what == 1:
                del data[at : at + rng.randrange(1, 30)]
            elif what == 2:
                data[at : at + rng.choice((0, 1, 4))] = rng.choice(_SPLICES)
            elif what == 3 and data:
                data[at % len(data)] = rng.randrange(256)
            elif what == 4:
                data[at:at] = data[at : at + rng.randrange(1, 200)]
            else:
                other = rng.randrange(len(data) + 1)
                data[at:at] = data[min(at, other) : max(at, other)][:300]
        yield bytes(data)


def reshaped(seed: bytes, rng: random.Random, n: int) -> Iterator[bytes]:
    """`n` payloads like the JSON text `seed`, in each of which some tokens are other values, or those of
    another place. Names of members are tokens too.
    """
    places = [match.span() for match in _TOKEN.finditer(seed)]
    for _ in range(n):
        chosen = rng.sample(places, min(rng.choice((1, 1, 2, 3)), len(places)))
        parts, done = [], 0
        for begin, end in sorted(chosen):
            other = rng.choice(places)
            new = seed[slice(*other)] if rng.random() < 0.3 else rng.choice([*_VALUES, *_DEEP])
            if new[:1] != b'"' and seed[end : end + 1] == b":":
                new = b'"' + new.replace(b'"', b"") + b'"'  # the name of a member
            parts += [seed[done:begin], new]
            done = end
        yield b"".join([*parts, seed[done:]])


class _Members(list[list[Any]]):
    """Members of an object, [name, value] each: a name may be there twice."""


def restructured(seed: bytes, rng: random.Random, n: int) -> Iterator[bytes]:
    """`n` payloads like the JSON text `seed` (a document, or one a line), in each of which some places of the
    tree are others: a member is named twice, or in its other spelling, or something stands where a value,
    an object or a list was.
    """
    try:
        documents = [seed.decode()]
        json.loads(seed)
    except ValueError:
        documents = seed.decode().splitlines()
    for _ in range(n):
        trees = [json.loads(text, object_pairs_hook=_members) for text in documents]
        for _ in range(rng.choice((1, 1, 2, 3))):
            places = list(_containers(trees))
            names = [name for place in places if isinstance(place, _Members) for name, _ in place]
            _restructure(rng.choice(places), names, rng)
        yield "\n".join(map(_written, trees)).encode()


def _members(pairs: list[tuple[str, Any]]) -> _Members:
    return _Members(map(list, pairs))


def _containers(value: Any) -> Iterator[list[Any]]:
    """Objects and lists that are not empty, the outer ones first."""
    if isinstance(value, list) and value:
        yield value
        for child in value:
            yield from _containers(child[1] if isinstance(value, _Members) else child)


def _restructure(container: list[Any], names: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(container))
    new = json.loads(rng.choice(_VALUES), object_pairs_hook=_members)
    if not isinstance(container, _Members):
        container[at] = new
        return
    name, value = container[at]
    what = rng.randrange(5)
    if what == 0:
        container[at] = [name, new]
        return
    if what == 1:
        name = _other_spelling(name)
    elif what == 2:
        name = rng.choice(names)
    again = [name, rng.choice([new, value, rng.choice(container)[1]])]
    container.insert(rng.randrange(len(container) + 1), again)


def _other_spelling(name: str) -> str:
    """`trace_id` for `traceId`, and the other way; `traceID` is another."""
    if "_" in name:
        return re.sub("_([a-z])", lambda m: m[1].upper(), name)
    return re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name)


def _written(value: Any) -> str:
    if isinstance(value, _Members):
        return "{" + ",".join(f"{json.dumps(name)}:{_written(member)}" for name, member in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value)


def trimmed(text: bytes, keep: int = 2) -> bytes:
    """A JSON document with the first `keep` elements of every list."""
    return msgspec.json.encode(_trimmed(msgspec.json.decode(text), keep))


def _trimmed(value: Any, keep: int) -> Any:
    if isinstance(value, dict):
        return {name: _trimmed(member, keep) for name, member in value.items()}
    return [_trimmed(element, keep) for element in value[:keep]] if isinstance(value, list) else value


def enlarged(seed: bytes, rng: random.Random, size: int) -> bytes:
    """A payload of about `size` bytes with the items of `seed` again and again.

    Of JSON a list is made longer, one that is not inside another; lines, and messages, whose repeated fields
    add up, follow each other.
    """
    times = max(size // len(seed), 1)
    try:
        document = msgspec.json.decode(seed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return (seed + b"\n" if seed.startswith(b"{") else seed) * times
    lists = [document] if isinstance(document, list) else list(_outer_lists(document))
    if lists:
        chosen = rng.choice(lists)
        chosen *= times
    return msgspec.json.encode(document)


def _outer_lists(value: Any) -> Iterator[list[Any]]:
    """Lists in objects, not those in lists, but for the levels of one element that a document begins with."""
    for member in value.values() if isinstance(value, dict) else value:
        if isinstance(member, list):
            if member:
                yield member
            if len(member) == 1:
                yield from _outer_lists(member)
        elif isinstance(member, dict):
            yield from _outer_lists(member)
