"""OTLP received over HTTP and gRPC by a process: real exporters, raw clients, limits, kills, full disks."""

from __future__ import annotations

import contextlib
import errno
import gzip
import http.client
import json
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import grpc
import pyarrow as pa
import pytest
from fixtures.ingest_process import IngestProcess, ingesting
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from oracles import fork_server
from oracles.sent_spans import PROTOBUF, Trace, nodes_by_request, nodes_of, post, traces
from oracles.waiting import PATIENCE_S, wait_until
from oracles.whole_lake import check

from stitch.lake.encoding import decode
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_store

JSON = {"Content-Type": "application/json"}
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
QUICK = ("--window-length", "1m", "--commit-interval", "200ms", "--idle", "1s", "--lateness", "1s")


@contextlib.contextmanager
def receiving(folder: Path, *options: object, **env: str) -> Iterator[tuple[IngestProcess, dict[str, str]]]:
    """A receiver on a lake in a folder, and its addresses."""
    with ingesting(
        folder,
        *("--lake", folder / "lake", "--otlp", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0"),
        *QUICK,
        *options,
        FLOWDIFF_RECEIVER_LEAST_FREE="0B",
        **env,
    ) as run:
        started = run.wait_for("started")
        yield run, {name: str(started[name]) for name in ("otlp", "otlp_grpc")}


def drained(folder: Path) -> None:
    """Publish all that a spool holds, without receiving."""
    with ingesting(folder, "--lake", folder / "lake", "--otlp", "127.0.0.1:0", *QUICK, "--until-end") as run:
        assert run.ended() == 0, run.text


def zstd(body: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(body)
    return sink.getvalue().to_pybytes()


def test_every_form_of_a_request_comes_into_the_lake(tmp_path: Path) -> None:
    sent = traces(9)
    with receiving(tmp_path) as (run, address):
        forms = [
            (sent[0].protobuf(), PROTOBUF),
            (gzip.compress(sent[1].protobuf()), {**PROTOBUF, "Content-Encoding": "gzip"}),
            (zstd(sent[2].protobuf()), {**PROTOBUF, "Content-Encoding": "zstd"}),
            (zlib.compress(sent[3].protobuf()), {**PROTOBUF, "Content-Encoding": "deflate"}),
            (sent[4].json(), {"Content-Type": "application/json; charset=utf-8"}),
            (gzip.compress(sent[5].json()), {**JSON, "Content-Encoding": "gzip"}),
            (b"\xef\xbb\xbf" + sent[8].json(), JSON),
        ]
        for body, headers in forms:
            status, answer, told = post(address["otlp"], body, headers)
            assert (status, answer) == (200, b"{}" if "json" in headers["Content-Type"] else b"")
            assert told["content-type"] == headers["Content-Type"].partition(";")[0]
        with grpc.insecure_channel(address["otlp_grpc"]) as channel:
            assert channel.unary_unary(METHOD)(sent[6].protobuf()) == b""
        with grpc.insecure_channel(address["otlp_grpc"], compression=grpc.Compression.Gzip) as channel:
            assert channel.unary_unary(METHOD)(sent[7].protobuf()) == b""
        assert post(address["otlp"], b"") == (200, b"", post(address["otlp"], b"")[2])  # no spans in it
        run.signal(signal.SIGTERM)
        assert run.ended() == 0
    drained(tmp_path)
    assert nodes_by_request(tmp_path / "lake") == nodes_of(sent)
    assert check(open_store(str(tmp_path / "lake"))) == []


def test_spans_that_will_be_dead_letters_are_a_partial_success(tmp_path: Path) -> None:
    """Sending again does not help, so the answer is 200; the others are taken."""
    whole, cut = traces(2)
    request = cut.spans()
    spans = request.resource_spans[0].scope_spans[0].spans
    spans.add(name="late", trace_id=spans[0].trace_id, span_id=b"in time?", end_time_unix_nano=17)
    spans.add(name="nobody", trace_id=spans[0].trace_id, span_id=b"short")
    body = request.SerializeToString()
    document = json.loads(whole.json())
    document["resourceSpans"][0]["scopeSpans"][0]["spans"].append({"traceId": "abc", "spanId": "no hex"})
    with receiving(tmp_path) as (run, address):
        status, answer, _ = post(
            address["otlp"], gzip.compress(body), {**PROTOBUF, "Content-Encoding": "gzip"}
        )
        assert status == 200
        partial = ExportTraceServiceResponse.FromString(answer).partial_success
        assert partial.rejected_spans == 2
        assert partial.error_message == (
            "Dead letters (bad-id: 1, bad-time: 1); span 4: start or end lies outside 1990 to 2200."
        )
        with grpc.insecure_channel(address["otlp_grpc"]) as channel:
            told = ExportTraceServiceResponse.FromString(channel.unary_unary(METHOD)(body))
            assert told.partial_success == partial
        status, answer, _ = post(address["otlp"], json.dumps(document).encode(), JSON)
        partial_json = json.loads(answer)["partialSuccess"]
        assert (status, partial_json["rejectedSpans"]) == (200, "1")
        assert "bad-id" in partial_json["errorMessage"]
        status, answer, _ = post(address["otlp"], b"\x12\x03abc")  # logs or metrics, say
        assert ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans == 1
        for empty, kind in ((b"", PROTOBUF), (b"{}", JSON), (b" {}\n", JSON)):
            assert post(address["otlp"], empty, kind)[:2] == (200, b"{}" if kind is JSON else b"")
        run.signal(signal.SIGTERM)
        assert run.ended() == 0
    drained(tmp_path)
    assert nodes_by_request(tmp_path / "lake") == nodes_of([whole, cut])
    manifest = open_manifest(store := open_store(str(tmp_path / "lake")))
    reasons = Counter(
        reason
        for file in manifest.files("dead_letters")
        for reason in decode("dead_letters", store.read(file.name))["reason"].to_pylist()
    )
    assert reasons == {"bad-id": 3, "bad-time": 2, "wrong-shape": 1}


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_exporters_of_the_sdk(transport: str, tmp_path: Path) -> None:
    with receiving(tmp_path) as (run, address):
        exporter: SpanExporter
        if transport == "http":
            exporter = HttpExporter(f"http://{address['otlp']}/v1/traces", compression=Compression.Gzip)
        else:
            exporter = GrpcExporter(address["otlp_grpc"], insecure=True, compression=grpc.Compression.Gzip)
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=100))
        tracer = provider.get_tracer("test")
        ids = set()
        for _ in range(300):
            with tracer.start_as_current_span("root") as root, tracer.start_as_current_span("call"):
                ids.add(format(root.get_span_context().trace_id, "032x"))
        provider.shutdown()
        run.signal(signal.SIGTERM)
        assert run.ended() == 0
    drained(tmp_path)
    assert nodes_by_request(tmp_path / "lake") == dict.fromkeys(ids, 4)


def test_a_request_sent_again_counts_once(tmp_path: Path) -> None:
    sent = traces(20)
    with receiving(tmp_path, "--log-level", "debug") as (run, address):
        for trace in sent:
            post(address["otlp"], trace.protobuf())
            post(address["otlp"], trace.protobuf())
        run.wait_for("commit", lambda told: told["messages"] > 0)
        for trace in sent:
            post(address["otlp"], trace.protobuf())
        run.signal(signal.SIGTERM)
        assert run.ended() == 0
    drained(tmp_path)
    assert nodes_by_request(tmp_path / "lake") == nodes_of(sent)


def test_what_cannot_be_read_is_refused_for_good(tmp_path: Path) -> None:
    body = traces(1)[0].protobuf()
    bomb = gzip.compress(bytes(64 * 2**20))
    with receiving(tmp_path, FLOWDIFF_RECEIVER_MAX_BODY="1MB") as (run, address):
        to = address["otlp"]
        refused = [
            (post(to, b"\x0a\xff\xff"), 400),
            (post(to, b"[1]", JSON), 400),
            (post(to, body, {**PROTOBUF, "Content-Encoding": "gzip"}), 400),
            (post(to, gzip.compress(body)[:-9], {**PROTOBUF, "Content-Encoding": "gzip"}), 400),
            (post(to, zstd(body)[:-3], {**PROTOBUF, "Content-Encoding": "zstd"}), 400),
            (post(to, zlib.compress(body)[:-5], {**PROTOBUF, "Content-Encoding": "deflate"}), 400),
            (post(to, bomb, {**PROTOBUF, "Content-Encoding": "gzip"}), 413),
            (post(to, zstd(bytes(64 * 2**20)), {**PROTOBUF, "Content-Encoding": "zstd"}), 413),
            (post(to, zlib.compress(bytes(64 * 2**20)), {**PROTOBUF, "Content-Encoding": "deflate"}), 413),
            (post(to, body, {**PROTOBUF, "Content-Encoding": "br"}), 415),
            (post(to, body, {"Content-Type": "text/plain"}), 415),
            (post(to, body, path="/v1/metrics"), 404),
            (post(to, body, {**PROTOBUF, "Origin": "http://127.0.0.1"}), 403),
        ]
        for (status, answer, told), wanted in refused:
            assert status == wanted
            if told["content-type"] == PROTOBUF["Content-Type"]:
                assert Status.FromString(answer).message
            else:
                assert json.loads(answer)["message"]
            assert "retry-after" not in told
        with contextlib.suppress(OSError):  # the answer may be lost with the connection: it does not read on
            assert post(to, bytes(3 * 2**20))[0] == 413
        with grpc.insecure_channel(address["otlp_grpc"]) as channel:
            call = channel.unary_unary(METHOD)
            for message in (b"\x0a\xff\xff", gzip.compress(body)[:-9], bomb):
                with pytest.raises(grpc.RpcError) as refusal:
                    call(message)
                assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            with pytest.raises(grpc.RpcError) as refusal:
                call(bytes(3 * 2**20))
            assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        connection = http.client.HTTPConnection(to, timeout=10)
        connection.request("GET", "/v1/traces")
        assert connection.getresponse().status == 405
        connection.close()
        assert post(to, body)[0] == 200
        run.signal(signal.SIGTERM)
        assert run.ended() == 0


def test_tokens(tmp_path: Path) -> None:
    body, file = traces(1)[0].protobuf(), tmp_path / "tokens"
    file.write_text("first-token\nsecond-token\n")
    with receiving(tmp_path, FLOWDIFF_RECEIVER_TOKEN_FILE=str(file)) as (_, address):

        def status(authorization: str | None) -> tuple[int, grpc.StatusCode]:
            given = {} if authorization is None else {"Authorization": authorization}
            with grpc.insecure_channel(address["otlp_grpc"]) as channel:
                metadata = [(k.lower(), v) for k, v in given.items()]
                try:
                    channel.unary_unary(METHOD)(body, metadata=metadata)
                    code = grpc.StatusCode.OK
                except grpc.RpcError as error:
                    code = error.code()
            return post(address["otlp"], body, {**PROTOBUF, **given})[0], code

        allowed, refused = (200, grpc.StatusCode.OK), (401, grpc.StatusCode.UNAUTHENTICATED)
        assert status("Bearer first-token") == status("bearer second-token") == allowed
        for wrong in (None, "", "Bearer", "Bearer ", "Bearer first", "Basic first-token", "first-token"):
            assert status(wrong) == refused, wrong
        file.write_text("third-token\n")
        assert status("Bearer first-token") == refused
        assert status("Bearer third-token") == allowed


def test_tls_alone(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", key, "-out", certificate, "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    body = traces(1)[0].protobuf()
    files = {
        "FLOWDIFF_RECEIVER_CERTIFICATE_FILE": str(certificate),
        "FLOWDIFF_RECEIVER_KEY_FILE": str(key),
    }
    with receiving(tmp_path, **files) as (_, address):
        context = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection(address["otlp"], timeout=10, context=context)
        connection.request("POST", "/v1/traces", body, PROTOBUF)
        assert connection.getresponse().status == 200
        connection.close()
        with pytest.raises((OSError, http.client.HTTPException)):
            post(address["otlp"], body)
        trusted = grpc.ssl_channel_credentials(certificate.read_bytes())
        with grpc.secure_channel(address["otlp_grpc"], trusted) as channel:
            assert channel.unary_unary(METHOD)(body) == b""


def test_clients_that_send_slowly_stop_nobody(tmp_path: Path) -> None:
    body = traces(1)[0].protobuf()
    heads = (b"", b"POST /v1/traces HTTP/1.1\r\nHost: a\r\n", b"POST /v1/traces HTTP/1.1\r\nX: " + b"a" * 999)
    whole = b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\n"
    slow = (
        *heads,
        whole + b"Content-Length: 9\r\n\r\n",
        whole + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
    )
    options = ("--serve-address", "127.0.0.1:0")
    limits = {"FLOWDIFF_RECEIVER_MAX_CONNECTIONS": "200", "FLOWDIFF_RECEIVER_REQUEST_TIMEOUT": "3s"}
    with receiving(tmp_path, *options, **limits) as (run, address):
        probe = str(run.wait_for("started")["serves"])
        host, _, port = address["otlp"].rpartition(":")
        with contextlib.ExitStack() as opened:
            sockets = []
            for i in range(1_000):
                client = opened.enter_context(socket.create_connection((host, int(port)), timeout=10))
                with contextlib.suppress(OSError):  # dropped already: there are too many
                    client.sendall(slow[i % len(slow)])
                sockets.append(client)
                if i % 100 == 0:
                    assert post(address["otlp"], body)[0] == 200
                    connection = http.client.HTTPConnection(probe, timeout=PATIENCE_S)
                    connection.request("GET", "/healthz")
                    assert connection.getresponse().status == 200
                    connection.close()
            for client in sockets:  # every one is dropped in time
                client.settimeout(PATIENCE_S)
                with contextlib.suppress(ConnectionError):
                    while client.recv(4096):
                        pass
        assert post(address["otlp"], body)[0] == 200


def test_calls_that_send_slowly_are_bounded(tmp_path: Path) -> None:
    body, over = traces(1)[0].protobuf(), threading.Event()

    def silent() -> Iterator[bytes]:
        over.wait(PATIENCE_S)
        yield body

    limits = {"FLOWDIFF_RECEIVER_MAX_CALLS": "2", "FLOWDIFF_RECEIVER_REQUEST_TIMEOUT": f"{PATIENCE_S:.0f}s"}
    with receiving(tmp_path, **limits) as (_, address), contextlib.ExitStack() as opened:
        opened.callback(over.set)
        channels = []
        for _ in range(3):  # connections of their own
            options = [("grpc.use_local_subchannel_pool", 1)]
            channels.append(opened.enter_context(grpc.insecure_channel(address["otlp_grpc"], options)))
        slow = [channel.stream_unary(METHOD).future(silent()) for channel in channels[:2]]

        def refusal() -> grpc.RpcError | None:
            for i, call in enumerate(slow):
                if call.done():  # it came while the one below had a place, and was refused
                    slow[i] = channels[i].stream_unary(METHOD).future(silent())
            try:
                channels[2].unary_unary(METHOD)(body)
            except grpc.RpcError as error:
                return error
            return None

        refused = wait_until(refusal)  # once both have theirs
        assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert retry_delay_s(refused) == 2
        over.set()
        assert [call.result() for call in slow] == [b"", b""]
        assert channels[2].unary_unary(METHOD)(body) == b""


def test_a_call_that_sends_too_slowly_leaves_its_place(tmp_path: Path) -> None:
    body, over = traces(1)[0].protobuf(), threading.Event()

    def silent() -> Iterator[bytes]:
        over.wait(PATIENCE_S)
        yield body

    limits = {"FLOWDIFF_RECEIVER_MAX_CALLS": "1", "FLOWDIFF_RECEIVER_REQUEST_TIMEOUT": "1s"}
    with receiving(tmp_path, **limits) as (_, address), contextlib.ExitStack() as opened:
        opened.callback(over.set)
        channel = opened.enter_context(grpc.insecure_channel(address["otlp_grpc"]))
        with pytest.raises(grpc.RpcError) as late:
            channel.stream_unary(METHOD)(silent())
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert channel.unary_unary(METHOD)(body) == b""


def test_an_endless_head_is_dropped(tmp_path: Path) -> None:
    with receiving(tmp_path) as (_, address):
        host, _, port = address["otlp"].rpartition(":")
        for line in (b"X-%d: a\r\n", b"%d" + b"a" * 90):
            with socket.create_connection((host, int(port)), timeout=10) as client:
                client.sendall(b"POST /v1/traces HTTP/1.1\r\n" + (b"" if b"\r" in line else b"X: "))
                with pytest.raises(ConnectionError):  # noqa: PT012 - any of them
                    for i in range(100_000):
                        client.sendall(line % i)
        assert post(address["otlp"], traces(1)[0].protobuf())[0] == 200


def test_what_is_not_http_is_counted_and_not_logged(tmp_path: Path) -> None:
    with receiving(tmp_path, "--serve-address", "127.0.0.1:0") as (run, address):
        host, _, port = address["otlp"].rpartition(":")
        for _ in range(50):
            with socket.create_connection((host, int(port)), timeout=10) as client:
                client.sendall(
                    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n"
                )  # TLS, by an exporter of https
                assert client.recv(65536).startswith(b"HTTP/1.1 400")
        serves = run.wait_for("started")["serves"].removeprefix("http://")
        with urllib.request.urlopen(f"http://{serves}/metrics") as answer:
            told = answer.read().decode()
        counted = 'flowdiff_otlp_requests_total{outcome="unreadable",transport="http"} 50.0'
        assert counted in told.replace(
            '{transport="http",outcome="unreadable"}', '{outcome="unreadable",transport="http"}'
        )
        assert "Invalid HTTP request" not in run.text


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 0\r\nContent-Length: 40\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_no_request_is_smuggled_behind_another(head: bytes, tmp_path: Path) -> None:
    """Of a head that a proxy could read otherwise nothing behind it is taken for a request."""
    body = traces(1)[0].protobuf()
    kind = b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\n"
    hidden = kind + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body
    with receiving(tmp_path) as (_, address):
        host, _, port = address["otlp"].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=5) as client:
            client.sendall(kind + head + hidden)
            found = b""
            with contextlib.suppress(TimeoutError, ConnectionError):
                while part := client.recv(65536):
                    found += part
        assert b"HTTP/1.1 200" not in found, found
        assert post(address["otlp"], body)[0] == 200


def test_too_much_at_once_is_asked_for_again(tmp_path: Path) -> None:
    limits = {"FLOWDIFF_RECEIVER_PENDING": "1MB", "FLOWDIFF_RECEIVER_MAX_BODY": "1MB"}
    limits["FLOWDIFF_RECEIVER_REQUEST_TIMEOUT"] = f"{PATIENCE_S:.0f}s"  # nobody leaves before the end
    with receiving(tmp_path, **limits) as (_, address):
        host, _, port = address["otlp"].rpartition(":")
        head = b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\n"
        with contextlib.ExitStack() as opened:
            for _ in range(3):  # requests that are not whole hold what they have sent
                client = opened.enter_context(socket.create_connection((host, int(port)), timeout=10))
                client.sendall(head + b"Content-Length: 500000\r\n\r\n" + bytes(400_000))
            body = traces(1)[0].protobuf() + b"\x12\x80\x80\x28" + bytes(40 * 2**14)  # an unknown field
            wait_until(lambda: post(address["otlp"], body)[0] != 200)
            status, _, told = post(address["otlp"], body)
            assert (status, told["retry-after"]) == (429, "2")
            with grpc.insecure_channel(address["otlp_grpc"]) as channel:
                with pytest.raises(grpc.RpcError) as refusal:
                    channel.unary_unary(METHOD)(body)
                assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                assert retry_delay_s(refusal.value) == 2


def retry_delay_s(error: grpc.RpcError) -> float:
    """Delay of the RetryInfo that OTLP wants beside an error."""
    details = dict(error.trailing_metadata())["grpc-status-details-bin"]
    info = RetryInfo()
    packed: AnyMessage = Status.FromString(details).details[0]
    assert packed.Unpack(info)
    return float(info.retry_delay.ToNanoseconds() / 1e9)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_full_disk_is_told_and_waited_for(tmp_path: Path) -> None:
    shim, control = tmp_path / "failing_disk.so", tmp_path / "control"
    source = Path(__file__).parents[1] / "fixtures" / "failing_disk.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
    env = {
        "LD_PRELOAD": str(shim),
        "DISK_ROOT": str(tmp_path / "lake" / "spool"),
        "DISK_CONTROL": str(control),
    }
    sent = traces(9)
    with receiving(tmp_path, **env) as (run, address):
        for i, fault in enumerate((f"{errno.ENOSPC} w", f"{errno.EIO} s", f"{errno.ENOSPC} c")):
            assert post(address["otlp"], sent[3 * i].protobuf())[0] == 200
            control.write_text(fault)
            if fault.endswith("c"):  # of another file, where the last one was given up
                control.write_text(f"{errno.EIO} s")
                assert post(address["otlp"], sent[3 * i + 1].protobuf())[0] == 503
                control.write_text(fault)
            for _ in range(3):
                status, answer, told = post(address["otlp"], sent[3 * i + 1].protobuf())
                assert (status, told["retry-after"]) == (503, "2"), fault
                assert "cannot be written" in Status.FromString(answer).message
            with grpc.insecure_channel(address["otlp_grpc"]) as channel:
                with pytest.raises(grpc.RpcError) as refusal:
                    channel.unary_unary(METHOD)(sent[3 * i + 1].protobuf())
                assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
                assert retry_delay_s(refusal.value) == 2
            assert "cannot write" in run.wait_for("trouble")["why"]
            control.unlink()
            assert post(address["otlp"], sent[3 * i + 1].protobuf())[0] == 200
            run.wait_for("the trouble is over")
            assert post(address["otlp"], sent[3 * i + 2].protobuf())[0] == 200
        run.signal(signal.SIGTERM)
        assert run.ended() == 0
    drained(tmp_path)
    assert nodes_by_request(tmp_path / "lake") == nodes_of(sent)


def test_a_full_spool_is_emptied_by_what_the_lake_takes(tmp_path: Path) -> None:
    """Files that the lake has go while the receiver is in trouble, too: else it would stay full for ever."""
    sent = traces(20)
    padding = b"\x12\x80\x80\x10" + bytes(2**18)  # four of them fill the spool, sooner than a commit comes
    with receiving(
        tmp_path,
        *("--commit-interval", "3s", "--lateness", "2h"),
        FLOWDIFF_RECEIVER_MAX_SPOOL="1MB",
        FLOWDIFF_RECEIVER_SEGMENT="64KB",
    ) as (run, address):
        told = set()
        for each in sent:
            deadline = time.monotonic() + PATIENCE_S
            while (status := post(address["otlp"], each.protobuf() + padding)[0]) != 200:
                told.add(status)
                assert time.monotonic() < deadline, run.text
                time.sleep(0.1)
        assert told == {503}
        run.signal(signal.SIGTERM)
        assert run.ended() == 0
    drained(tmp_path)
    assert nodes_by_request(tmp_path / "lake") == nodes_of(sent)


def test_a_file_of_limited_size_is_told_and_gone_on_from(tmp_path: Path) -> None:
    """RLIMIT_FSIZE: a write beyond it is cut short, then fails; the spool goes on in another file."""
    script = (
        "import resource, sys, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000));"
        "sys.argv[0] = 'flowdiff'; runpy.run_module('flowdiff', run_name='__main__')"
    )
    sent = traces(40)
    padding = b"\x12\x80\x80\x02" + bytes(2**15)
    log = tmp_path / "log"
    arguments = [
        *("ingest", "--lake", str(tmp_path / "lake"), "--otlp", "127.0.0.1:0", "--serve-address", ""),
        *QUICK,
    ]
    with log.open("wb") as file:
        process = fork_server.Popen([sys.executable, "-c", script, *arguments], stderr=file)
    try:
        (started,) = wait_until(lambda: re.findall(r"^.*\"started\".*\n", log.read_text(), re.MULTILINE))
        address = json.loads(started)["otlp"]
        statuses = []
        for trace in sent:
            while (status := post(address, trace.protobuf() + padding)[0]) != 200:
                statuses.append(status)
        assert set(statuses) == {503}
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    drained(tmp_path)
    assert nodes_by_request(tmp_path / "lake") == nodes_of(sent)


def test_no_answered_request_is_lost_by_kills(tmp_path: Path) -> None:
    kill_many(tmp_path, kills=12, seed=1, longest_s=0.8)


def kill_many(folder: Path, kills: int, seed: int, longest_s: float) -> None:
    """Kill a receiver at random moments, while clients send; each answered trace is in the lake once.

    longest_s: time until a kill, at most, once more requests were answered than receivers were killed.
    """
    rng = random.Random(seed)
    answered: list[Trace] = []
    numbers = iter(range(1, 10_000_000))
    lock = threading.Lock()

    def send(address: str, over: threading.Event, grpc_address: str | None) -> None:
        channel = grpc.insecure_channel(grpc_address) if grpc_address else None
        while not over.is_set():
            with lock:
                number = next(numbers)
            trace = traces(1, first=number, ago_s=3_600)[0]
            try:
                if channel is not None:
                    channel.unary_unary(METHOD)(trace.protobuf(), timeout=5)
                    is_taken = True
                elif number % 3:
                    is_taken = post(address, trace.protobuf())[0] == 200
                else:
                    is_taken = post(address, trace.json(), JSON)[0] == 200
            except (OSError, http.client.HTTPException, grpc.RpcError):
                time.sleep(0.02)
                continue
            if is_taken:
                with lock:
                    answered.append(trace)
        if channel is not None:
            channel.close()

    for life in range(kills):
        with receiving(folder, FLOWDIFF_RECEIVER_SEGMENT="64KB", FLOWDIFF_RECEIVER_SEGMENT_AGE="1s") as (
            run,
            address,
        ):
            over = threading.Event()
            clients = [
                threading.Thread(
                    target=send, args=(address["otlp"], over, address["otlp_grpc"] if i == 0 else None)
                )
                for i in range(4)
            ]
            for client in clients:
                client.start()
            wait_until(lambda: len(answered) > life)  # noqa: B023 - called at once
            time.sleep(rng.uniform(0.0, longest_s))
            run.signal(signal.SIGKILL)
            run.process.wait()
            over.set()
            for client in clients:
                client.join()
    drained(folder)
    found = nodes_by_request(folder / "lake")
    lost = [trace for trace in answered if found.get(trace.trace_id.hex()) != 8]
    assert not lost, f"{len(lost)} of {len(answered)} answered traces are lost, or not whole"
    assert check(open_store(str(folder / "lake"))) == []


@pytest.mark.chaos
def test_no_answered_request_is_lost_by_many_kills(tmp_path: Path) -> None:
    kill_many(tmp_path, kills=200, seed=2, longest_s=1.5)


def test_an_empty_spool_ends_at_once(tmp_path: Path) -> None:
    drained(tmp_path)
    assert nodes_by_request(tmp_path / "lake") == {}


def test_a_receiver_needs_no_package_of_kafka(tmp_path: Path) -> None:
    blocked = ("kafka", "crc32c", "lz4", "snappy", "zstandard", "obstore", "pyiceberg", "sklearn")
    script = f"import sys; sys.modules.update(dict.fromkeys({blocked!r})); " + (
        "sys.argv[0] = 'flowdiff'; import runpy; runpy.run_module('flowdiff', run_name='__main__')"
    )
    words = ["ingest", "--lake", str(tmp_path / "lake"), "--otlp", "127.0.0.1:0", "--until-end"]
    done = subprocess.run(
        [sys.executable, "-c", script, *words, "--serve-address", ""], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_second_receiver_on_a_spool_is_refused(tmp_path: Path) -> None:
    with (
        receiving(tmp_path),
        ingesting(tmp_path, "--lake", tmp_path / "lake", "--otlp", "127.0.0.1:0", *QUICK) as second,
    ):
        assert second.ended() == 75 or "Another process receives" in second.text


def test_the_spool_does_not_pile_up(tmp_path: Path) -> None:
    limits = {
        "FLOWDIFF_RECEIVER_SEGMENT": "64KB",
        "FLOWDIFF_RECEIVER_SEGMENT_AGE": "1s",
        "FLOWDIFF_RECEIVER_SYNC_INTERVAL": "0ms",  # one sender waits for each
    }
    with receiving(tmp_path, "--log-level", "debug", **limits) as (run, address):
        sent = traces(600)
        for trace in sent:
            assert post(address["otlp"], trace.protobuf())[0] == 200
        folder = tmp_path / "lake" / "spool" / "otlp-proto"

        def sizes() -> list[int]:
            found = []
            for path in folder.glob("*.spool"):
                with contextlib.suppress(FileNotFoundError):
                    found.append(path.stat().st_size)
            return found

        # All is committed, and its age is reached: one empty file with the next number is left.
        wait_until(lambda: sizes() == [0], sizes)
        run.signal(signal.SIGTERM)
        assert run.ended() == 0
    drained(tmp_path)
    assert nodes_by_request(tmp_path / "lake") == nodes_of(sent)
