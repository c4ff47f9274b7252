"""Fuzz the native reader: `fuzz.py [--seconds S] [--seed N]`.

Messages are made by a grammar (most of them sound, so that the library reads them), mutated and random; in
CONFIGS both readers must give the same events, dead letters and counts. The portable reader is the authority:
protobuf's own parser decides what it accepts. Every few polls a message alone must give what it gave beside
others. What differs is made small and printed; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from ingest.codecs.otlp.otlp_proto import OtlpProtoCodec
from ingest.codecs.otlp.wire.library import Found, native_library
from ingest.codecs.port import Decoded
from schemas.config import DecodeConfig, ParamRules

CONFIGS: Final = (
    *[DecodeConfig()] * 8,
    DecodeConfig(max_text_bytes=16, max_name_bytes=20),
    DecodeConfig(max_params_per_event=3),
    DecodeConfig(params=ParamRules(deny=("http.*",), redact=("x", "event.*"))),
    DecodeConfig(params=ParamRules(allow=("http.*", "k", "event.*"))),
    DecodeConfig(label_keys=("http.route",), host_keys=("k8s.pod.name", "x", "host.name")),
    DecodeConfig(label_keys=("http.route", "http.method", "peer.service")),
    DecodeConfig(event_points=("e", "exception")),
    DecodeConfig(params=ParamRules(hash=("http.*", "k"), hash_key=b"0" * 16)),  # type: ignore[arg-type]
)
"""Settings to draw from: half of them the defaults, which nearly everyone has."""
_ODD_KEYS: Final = ("z" * 300, "n\0ul", "sampler.param")
_KEYS: Final = (
    *("http.route", "http.method", "service.name", "host.name", "k8s.pod.name", "peer.service", "error.type"),
    *("server.address", "net.peer.name", "flowdiff.label", "a.token", "user.password", "x", "", "span.name"),
    *("status.message", "event.e", "event.e.k", "k", "ключ", "sampler.type", "long.text"),
)
_COLUMN_KEYS: Final = frozenset(
    ("service.name", "host.name", "k8s.pod.name", "peer.service", "server.address", "net.peer.name")
) | {"error.type", "flowdiff.label", "http.route", "http.method", "x"}
_WORDS: Final = ("GET", "true", *(f"v{number}" for number in range(20)))
_ODD_WORDS: Final = (
    *("", "ok", "error", "a\0b", "é" * 40, "x" * 200, "y" * 300, "x" * 5000, "[1,2", "{}", "٣٤", "😀", "NaN"),
    *('{"password": "p", "a": 1}', "GET /users/17/orders", "12345678", "?", "[redacted]"),
)
_NUMBERS: Final = (0, 1, -1, 200, 2**53 + 1, -(2**63), 2**63 - 1)
_FLOATS: Final = (0.0, -0.0, 1.5, 1e300, 5e-324, 3.0)
_NO_FLOATS: Final = (float("nan"), float("inf"), float("-inf"))
_NASTY: Final = (
    *(
        b"\xff" * 10,
        b"\x80\x00",
        b"\x0a\x00",
        b"\x12\x00",
        b"\x4a\x00",
        b"\x7a\x00",
        b"\x5a\x00",
        b"\x6a\x00",
    ),
    *(b"\x08\x01", b"\x00", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x0b\x0c", b"\xf8\x01\x01"),
    *(b"\x82\x01\x00", b"\x85\x01", b"\x40", b"\x32\x00", b"\x2a\x00", b"\xff\xff\xff\xff\x0f"),
)
_T0: Final = 1_700_000_000_000_000_000
_ALONE_EVERY: Final = 8
"""Interval, in polls, at which messages are also decoded one by one."""
Codec = Callable[[Sequence[bytes], DecodeConfig], Decoded]


class Messages:
    """Generator of OTLP messages from a seed."""

    def __init__(self, seed: int, seeds: Sequence[bytes] = ()) -> None:
        """seeds: real messages, to be mutated too."""
        self._random = random.Random(seed)
        self._seeds = seeds
        self._is_mild = True

    def poll(self) -> list[bytes]:
        """List of a few messages to decode together."""
        rng = self._random
        kind = rng.random()
        if kind < 0.6:
            return [self.made() for _ in range(rng.randrange(1, 6))]
        if kind < 0.9 or not self._seeds:
            made = [self.made() for _ in range(rng.randrange(1, 4))]
            return [self.mutated(message) if rng.random() < 0.6 else message for message in made]
        return [self.mutated(rng.choice(self._seeds)) for _ in range(rng.randrange(1, 4))]

    def made(self) -> bytes:
        """Message from the grammar; four of five have nothing that the library leaves to the portable
        reader.
        """
        rng = self._random
        self._is_mild = rng.random() < 0.8
        request = ExportTraceServiceRequest()
        for _ in range(rng.randrange(1, 4)):
            resource = request.resource_spans.add()
            if rng.random() < 0.9:
                self._attributes(resource.resource.attributes, 6)
            if rng.random() < 0.2:
                resource.schema_url = self._text()
            for _ in range(rng.randrange(1, 3)):
                scope = resource.scope_spans.add()
                if rng.random() < 0.5:
                    scope.scope.name = self._text()
                    self._attributes(scope.scope.attributes, 2)
                for _ in range(rng.randrange(4)):
                    self._span(scope.spans.add())
        written: bytes = request.SerializeToString()
        return written or b"\x0a\x00"

    def _span(self, span: Any) -> None:
        rng = self._random
        span.trace_id, span.span_id = rng.randbytes(16), rng.randbytes(8)
        if rng.random() < 0.5:
            span.parent_span_id = rng.choice([rng.randbytes(8), rng.randbytes(8), bytes(8), b""])
        span.name, span.kind = self._text(), rng.randrange(6)
        if self._mostly(0.97):
            span.start_time_unix_nano = _T0 + rng.randrange(10**9)
        if rng.random() < 0.97:
            span.end_time_unix_nano = _T0 + 10**9 + rng.randrange(10**9)
        self._attributes(span.attributes, 8)
        if rng.random() < 0.3:
            span.trace_state = rng.choice(["ot=th:8", "ot=th:0;rv:1,x=y", "a=b", "ot=th:fffffffffffffff", ""])
        if rng.random() < 0.3:
            span.status.code, span.status.message = rng.randrange(3), self._text()
        if rng.random() < 0.2:
            span.flags, span.dropped_attributes_count = rng.randrange(2**32), rng.randrange(5)
        for _ in range(rng.randrange(3) if rng.random() < 0.3 else 0):
            event = span.events.add()
            event.time_unix_nano = _T0 + rng.randrange(10**9) if self._mostly(0.95) else 0
            event.name = rng.choice(["e", "e 17", "exception", ""])
            self._attributes(event.attributes, 3)
        for _ in range(rng.randrange(3) if rng.random() < 0.2 else 0):
            link = span.links.add()
            link.trace_id = rng.randbytes(16)
            link.span_id = rng.randbytes(8) if self._mostly(0.95) else b"abc"
            self._attributes(link.attributes, 2)
        if not self._mostly(0.95):
            span.span_id = rng.randbytes(rng.randrange(9))

    def _mostly(self, share: float) -> bool:
        return self._is_mild or self._random.random() < share

    def _text(self) -> str:
        return self._random.choice(_WORDS if self._random.random() < 0.6 else _ODD_WORDS)

    def _attributes(self, to: Any, n: int) -> None:
        for _ in range(self._random.randrange(n)):
            pair = to.add()
            pair.key = self._random.choice(_KEYS if self._mostly(0.9) else _ODD_KEYS)
            if self._is_mild and pair.key in _COLUMN_KEYS:
                pair.value.string_value = self._text()
            elif self._random.random() < 0.97:
                self._value(pair.value, 0)

    def _value(self, value: AnyValue, depth: int) -> None:
        rng = self._random
        kind = rng.random()
        if kind < 0.55:
            value.string_value = self._text()
        elif kind < 0.75:
            value.int_value = rng.choice([*_NUMBERS, rng.randrange(10**6)])
        elif kind < 0.82:
            value.double_value = rng.choice(_FLOATS if rng.random() < 0.9 else _NO_FLOATS)
        elif kind < 0.88:
            value.bool_value = rng.random() < 0.5
        elif kind < 0.91 and depth < 3:
            value.array_value.SetInParent()
            for _ in range(rng.randrange(3)):
                self._value(value.array_value.values.add(), depth + 1)
        elif kind < 0.94 and depth < 3:
            value.kvlist_value.SetInParent()
            for _ in range(rng.randrange(3)):
                pair = value.kvlist_value.values.add()
                pair.key = rng.choice(_KEYS)
                self._value(pair.value, depth + 1)
        elif kind < 0.96:
            value.bytes_value = rng.randbytes(rng.randrange(6))

    def mutated(self, message: bytes) -> bytes:
        """Copy of a message with some bytes changed, removed, doubled or inserted."""
        rng = self._random
        out = bytearray(message)
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            if not out:
                break
            kind, at = rng.random(), rng.randrange(len(out))
            if kind < 0.4:
                out[at] ^= 1 << rng.randrange(8)
            elif kind < 0.55:
                out[at] = rng.randrange(256)
            elif kind < 0.65:
                del out[at : at + rng.randrange(1, 12)]
            elif kind < 0.75:
                out[at:at] = rng.choice(_NASTY)
            elif kind < 0.85:
                del out[at:]
            elif kind < 0.95:
                out[at:at] = out[at : at + rng.randrange(1, 30)]
            else:
                out[at : at + 1] = rng.randbytes(rng.randrange(4))
        return bytes(out)


def difference(found: Decoded, expected: Decoded) -> str:
    """First difference between two results, as text; empty if equal, whatever their dictionaries."""
    if not found.events.schema.equals(expected.events.schema):
        return "schema"
    if found.events.num_rows != expected.events.num_rows:
        return f"{found.events.num_rows} events, not {expected.events.num_rows}"
    for name in expected.events.column_names:
        ours, theirs = _plain(found.events[name]), _plain(expected.events[name])
        if not ours.equals(theirs):
            row = next((i for i in range(len(ours)) if str(ours[i]) != str(theirs[i])), None)
            if row is not None:  # else the same values, laid out otherwise
                return f"{name} of event {row}: {ours[row]}, not {theirs[row]}"
    if found.rejects != expected.rejects or dict(found.refused) != dict(expected.refused):
        return f"dead letters: {found.rejects}, not {expected.rejects}"
    if dict(found.oddities) != dict(expected.oddities):
        return f"counts: {dict(found.oddities)}, not {dict(expected.oddities)}"
    return ""


_PLAIN_PARAMS: Final = pa.list_(
    pa.struct([("key", pa.string()), ("num", pa.float64()), ("text", pa.string())])
)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    is_params = pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type)
    return column.cast(_PLAIN_PARAMS) if is_params and column.type.value_type.num_fields == 3 else column


def alone(decode: Codec, messages: Sequence[bytes], config: DecodeConfig) -> Decoded:
    """Results of messages decoded one by one, concatenated."""
    each = [decode([message], config) for message in messages]
    events = pa.concat_tables([one.events for one in each]).unify_dictionaries().combine_chunks()
    counts: Counter[str] = sum((Counter(one.oddities) for one in each), Counter())
    refused: Counter[str] = sum((Counter(one.refused) for one in each), Counter())
    rejects = [replace(reject, payload=place) for place, one in enumerate(each) for reject in one.rejects]
    return Decoded(events, rejects, counts, refused)


def compared(seed: int, seeds: Sequence[bytes] = ()) -> Iterator[tuple[list[bytes], int, str, int]]:
    """Yield for every poll: (messages, index of the settings in CONFIGS, difference, number of events)."""
    messages, rng = Messages(seed, seeds), random.Random(seed)
    native, portable = OtlpProtoCodec().decode, OtlpProtoCodec(Found(None)).decode
    number = 0
    while True:
        poll, setting = messages.poll(), rng.randrange(len(CONFIGS))
        found = native(poll, CONFIGS[setting])
        expected = portable(poll, CONFIGS[setting])
        differs = difference(found, expected)
        if not differs and number % _ALONE_EVERY == 0:
            differs = difference(alone(native, poll, CONFIGS[setting]), found)
            differs = f"beside others, {differs}" if differs else ""
        number += 1
        yield poll, setting, differs, found.events.num_rows


def main(seconds: float, seed: int) -> int:
    """Fuzz for `seconds`; return the exit code."""
    if native_library().library is None:
        print(f"nothing to fuzz: {native_library().reader}")
        return 0
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    for poll, setting, differs, n_events in compared(seed):
        counts.update(polls=1, messages=len(poll), events=n_events)
        if differs:
            counts["different"] += 1
            print(f"seed {seed}, settings {setting}: {differs[:2000]}")
            print("\n".join(message.hex() for message in poll), flush=True)
        if time.monotonic() > end:
            break
    print(f"seed {seed}: " + ", ".join(f"{n:,} {name}" for name, n in counts.items()), flush=True)
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    given = arguments.parse_args()
    sys.exit(main(given.seconds, given.seed))
