"""Dead letters are bounded and hold nothing that must not be kept."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import SecretBytes, ValidationError

from ingest.codecs.dead_letters import MAX_KEPT_BYTES
from ingest.codecs.privacy import REDACTED, Keep, privacy_of
from ingest.decoding import DecodedBatch
from ingest.files import decode_file
from ingest.formats import codec_for
from schemas.config import MAX_KEPT, DecodeConfig, ParamRules
from schemas.rejects import Reason

T0 = 1_700_000_000_000_000_000
SECRET = "hunter2"
KEY = SecretBytes(b"k" * 16)
SECRET_NAMES = [
    "authorization",
    "Authorization",
    "http.request.header.authorization",
    "http.request.header.Set_Cookie",
    "cookie",
    "session.token",
    "db_password",
    "user.PasswordHash",
]


def record(**fields: object) -> bytes:
    plain: dict[str, object] = {"breadcrumb": "b", "ts": T0, "component": "c", "point": "p"}
    return json.dumps(plain | fields).encode()


def batches(path: Path, config: DecodeConfig | None = None, **options: int) -> list[DecodedBatch]:
    return list(decode_file(path, None, config or DecodeConfig(), **options))


def params_of(config: DecodeConfig, **params: object) -> dict[str, object]:
    (row,) = codec_for("native").decode([record(params=params)], config).events["params"].to_pylist()
    return {p["key"]: p["text"] if p["num"] is None else p["num"] for p in row or []}


def test_a_flood_of_rejects_is_counted_and_a_bounded_number_kept(tmp_path: Path) -> None:
    path = tmp_path / "flood"
    n = 3 * MAX_KEPT
    path.write_bytes(record() + b"\n" + b"{}\n" * n + record())
    read = batches(path, chunk_bytes=20_000)
    assert sum(b.events.num_rows for b in read) == 2
    assert sum((b.refused for b in read), Counter[str]()) == {Reason.MISSING_FIELD: n}
    assert sum(b.rejects.num_rows for b in read) == MAX_KEPT


def test_raw_bytes_of_rejects_are_bounded() -> None:
    wrong = [record(ts="no", params={"x": f"{i}" * 50_000}) for i in range(200)]
    decoded = codec_for("native").decode(wrong, DecodeConfig())
    assert len(decoded.rejects) == 200
    assert sum(len(r.raw or b"") for r in decoded.rejects) <= MAX_KEPT_BYTES
    assert decoded.rejects[0].raw == wrong[0][: 64 * 1024]
    assert decoded.rejects[-1].raw is None
    assert decoded.rejects[-1].size == len(wrong[-1])


MEASURED = """
import re, sys
from ingest.files import decode_file
from ingest.formats import codec_for
from schemas.config import DecodeConfig

def peak_kb():  # not `ru_maxrss`, which begins with what the process that started this one has
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])

codec_for("native").decode([b"{}"], DecodeConfig())
before = peak_kb()
rows = [b.events.num_rows for b in decode_file(sys.argv[1], "native", DecodeConfig(), chunk_bytes=2**20)]
print(sum(rows), (peak_kb() - before) // 1024)
"""


@pytest.mark.parametrize(
    ("junk", "limit_mb"),
    [(b"{}\n" * 100_000, 50), (record(params={"x": "x" * 60_000_000}) + b"\n", 60)],
    ids=["200,000 empty objects", "a line of 60 MB"],
)
def test_memory_is_bounded_whatever_is_refused(tmp_path: Path, junk: bytes, limit_mb: int) -> None:
    path = tmp_path / "junk"
    path.write_bytes(junk + record() + b"\n" + junk + record())
    command = [sys.executable, "-c", MEASURED, str(path)]
    rows, peak_mb = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(rows) == 2
    assert int(peak_mb) < limit_mb


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_secrets_are_dropped_by_default(name: str) -> None:
    assert params_of(DecodeConfig(), **{name: SECRET, "kept": 1, "token": "t", "tokens.used": 5}) == {
        "kept": 1.0,
        "token": "t",
        "tokens.used": 5.0,
    }


def test_secrets_inside_nested_values_are_blanked() -> None:
    nested = {"headers": {"Cookie": SECRET, "accept": "x"}, "list": [{"key": "api.token", "value": SECRET}]}
    params = params_of(DecodeConfig(), nested=nested, text=json.dumps({"db_password": SECRET}))
    assert SECRET not in str(params)
    assert json.loads(str(params["nested"])) == {
        "headers": {"Cookie": REDACTED, "accept": "x"},
        "list": [{"key": "api.token", "value": REDACTED}],
    }


def _deep(depth: int) -> bytes:
    """Text of a value that is nested so deep, with a secret at its bottom."""
    return b'{"a":' * depth + b'{"password":"hunter2"}' + b"}" * depth


DEEP: dict[str, tuple[bytes, bytes]] = {
    "native": (record(params={"x": 0})[:-3], b"}}"),
    "jaeger-json": (
        b'{"traceID":"1","spanID":"2","startTime":1700000000000000,"tags":[{"key":"x","value":',
        b"}]}",
    ),
    "zipkin": (b'[{"traceId":"1","id":"2","timestamp":1700000000000000,"tags":{"x":', b"}}]"),
    "zipkin, in an annotation": (
        b'[{"traceId":"1","id":"2","timestamp":1700000000000000,"annotations":[{"timestamp":1700000000000000,'
        b'"value":"e|{\\"x\\":',
        b'}|0"}]}]',
    ),
    "native, in text": (record(params={"x": 0})[:-3] + b'"', b'"}}'),
}
"""What stands before and behind the value of a parameter."""


@pytest.mark.parametrize("place", DEEP)
@pytest.mark.parametrize("depth", [600, 985, 2_000])
def test_secrets_are_found_however_deep_they_lie(place: str, depth: int) -> None:
    """Parsers go to 1,000 levels, calls of Python to half of that: neither ends a decode."""
    before, behind = DEEP[place]
    value = _deep(depth)
    if "," in place:  # inside text
        value = value.replace(b'"', b'\\"')
    decoded = codec_for(place.partition(",")[0]).decode([before + value + behind], DecodeConfig())
    assert SECRET not in str(decoded.events.drop_columns("point").to_pylist())
    assert all(SECRET.encode() not in (reject.raw or b"") for reject in decoded.rejects)
    assert decoded.events.num_rows + len(decoded.rejects) == 1
    assert decoded.events.num_rows == 1 or depth > 600


def test_a_value_that_another_of_its_name_hides_is_not_kept() -> None:
    """Parsers show the last value under a name, bytes show all."""
    twice = b'{"password":"hunter2","password":null}'
    text = json.dumps(twice.decode()).encode()
    for wrong in (
        record(ts="no")[:-1] + b',"params":' + twice + b"}",
        record(ts="no")[:-1] + b',"params":{"cookie":"hunter2"},"params":{}}',
        record(ts="no")[:-1] + b',"params":{"x":' + text + b"}}",
    ):
        (reject,) = codec_for("native").decode([wrong], DecodeConfig()).rejects
        assert SECRET.encode() not in (reject.raw or b"")
        assert reject.size == len(wrong)
    kept = params_of(DecodeConfig(), x=twice.decode(), y='{ "password":null, "é":"é" }', z='{ "a":1, "a":2 }')
    assert kept == {"x": '{"password":null}', "y": '{ "password":null, "é":"é" }', "z": '{ "a":1, "a":2 }'}


def test_rules_drop_redact_hash_and_allow() -> None:
    rules = ParamRules(
        allow=("user*", "size"), deny=("user.mail",), redact=("user.name",), hash=("user.id",), hash_key=KEY
    )
    config = DecodeConfig(params=rules)
    given: dict[str, object] = {"user.mail": "m", "user.name": "n", "user.id": 7, "size": 5, "other": 1}
    params = params_of(config, **given)
    assert set(params) == {"user.name", "user.id", "size"}
    assert (params["user.name"], params["size"]) == (REDACTED, 5.0)
    assert str(params["user.id"]).startswith("hmac:")
    assert params_of(config, **{"user.id": 7})["user.id"] == params["user.id"]
    assert params_of(config, **{"user.id": 8})["user.id"] != params["user.id"]
    other_key = rules.model_copy(update={"hash_key": SecretBytes(b"x" * 16)})
    assert params_of(DecodeConfig(params=other_key), **given)["user.id"] != params["user.id"]


def test_the_key_of_hashes_shows_nowhere() -> None:
    rules = ParamRules(hash=("a",), hash_key=SecretBytes(b"secret key of 20 b."))
    assert "secret key" not in repr(rules) + rules.model_dump_json() + str(rules.model_dump())
    with pytest.raises(ValidationError) as caught:
        ParamRules(hash=("a",), hash_key=SecretBytes(b"short!"))
    assert "short!" not in str(caught.value)


@pytest.mark.parametrize(
    ("format_", "payload"),
    [
        ("native", record(ts="no", params={"cookie": SECRET, "kept": "this"})),
        ("native", record(params={"cookie": SECRET})[:-3]),
        ("native", record(params={"c\u006fokie": SECRET}).replace(b"cookie", b"c\\u006fokie")[:-3]),
        ("otlp-json", b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"zz","attributes":'
         b'[{"key":"http.request.header.authorization","value":{"stringValue":"hunter2"}}]}]}]}]}'),
        ("jaeger-json", b'{"traceID":"zz","tags":[{"key":"Set-Cookie","type":"string","value":"hunter2"}]}'),
        ("zipkin", b'[{"traceId":"zz","id":"1","tags":{"x.token":"hunter2"}}]'),
        ("xtrace", b'[{"id":"x","reports":[{"X-Trace":["zz"],"Password":["hunter2"]}]}]'),
    ],
)  # fmt: skip
def test_dead_letters_hold_no_secret(format_: str, payload: bytes) -> None:
    assert payload.replace(b"\\u006f", b"o").count(SECRET.encode()) == 1
    (reject,) = codec_for(format_).decode([payload], DecodeConfig()).rejects
    assert SECRET.encode() not in (reject.raw or b"")
    assert (reject.size, len(reject.sha256)) == (reject.size, 64)
    assert reject.size > 0


def test_dead_letters_of_messages_hold_no_secret() -> None:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"short", span_id=b"12345678")
    span.attributes.add(key="DB-Password").value.string_value = SECRET
    message = request.SerializeToString()
    for payload in (message, message[:-1]):
        (reject,) = codec_for("otlp-proto").decode([payload], DecodeConfig()).rejects
        assert reject.raw is None
        assert reject.size > 0


def test_dead_letters_without_secrets_keep_their_bytes() -> None:
    lines = [b'{ "breadcrumb" : "b", "params":{"size":5} }', b"{broken", b"\xff\xfe"]
    decoded = codec_for("native").decode(lines, DecodeConfig())
    assert [r.raw for r in decoded.rejects] == lines


def test_what_only_allows_keeps_no_raw_bytes() -> None:
    config = DecodeConfig(params=ParamRules(allow=("size",)))
    (reject,) = codec_for("native").decode([record(ts="no", params={"mail": SECRET})], config).rejects
    assert (reject.raw, reject.size > 0) == (None, True)


def test_a_rule_without_letters_keeps_no_raw_bytes_that_cannot_be_parsed() -> None:
    config = DecodeConfig(params=ParamRules(redact=("*",)))
    (reject,) = codec_for("native").decode([b"{broken"], config).rejects
    assert reject.raw is None


def test_marks_and_events_obey_the_rules() -> None:
    privacy = privacy_of(ParamRules(redact=("query",)))
    assert privacy.keep("event.exception.cookie") == Keep.DROPPED
    assert privacy.keep("event.sql.Query") == Keep.REDACTED
    assert privacy.keep("event.querying") == Keep.PLAIN


def test_rejects_of_files_hold_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "secrets"
    path.write_bytes(record() + b"\n" + record(params={"cookie": SECRET, "x": "x" * 100_000}) + b"\n")
    config = DecodeConfig(max_payload_bytes=1_000)
    rejects = pa.concat_tables([b.rejects for b in batches(path, config)]).to_pylist()
    assert [(r["reason"], r["raw"]) for r in rejects] == [(Reason.TOO_LARGE, None)]
