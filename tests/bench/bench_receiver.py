"""OTLP received to disk, beside the OpenTelemetry Collector's `otlp` receiver with a file exporter.

Run: `make bench-receiver [SPANS=200000]`, which builds the Collector. The same bodies (500 spans, protobuf,
plain and gzip) are posted over HTTP and gRPC by some connections to each process in turns: CPU of the whole
process from its start to its end, less that of one that receives nothing. flowdiff's process receives into
the spool, and fsyncs; the Collector writes protobuf to a file, without fsync.
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

import grpc
from bench.trace_stream import messages

HERE = Path(__file__).resolve().parents[2]
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
CONNECTIONS = 16
ROUNDS = 3
ALONE = """
import signal, sys, threading
from pathlib import Path
from ingest.receiver.receiver import Receiver
from ingest.receiver.receiver_settings import ReceiverSettings
from ingest.receiver.spool import Spool
from schemas.config import DecodeConfig
settings = ReceiverSettings(least_free_bytes=0)
spool = Spool(Path(sys.argv[1]), settings)
receiver = Receiver(spool, settings, sys.argv[2], sys.argv[3], DecodeConfig())
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
over.wait()
receiver.close()
spool.close()
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def running(command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], list[float]]]:
    """A process from its start to its orderly end, and then its CPU seconds."""
    process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    spent: list[float] = []
    try:
        yield process, spent
    finally:
        process.send_signal(signal.SIGTERM)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        spent.append(used.ru_utime + used.ru_stime)


def wait_for(process: subprocess.Popen[bytes], address: str) -> None:
    """Wait until a process listens on an address."""
    host, _, port = address.rpartition(":")
    while True:
        assert process.poll() is None
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)


def send_http(address: str, bodies: list[bytes], *, packed: bool) -> None:
    connection = http.client.HTTPConnection(address, timeout=60)
    headers = {"Content-Type": "application/x-protobuf", **({"Content-Encoding": "gzip"} if packed else {})}
    for body in bodies:
        while True:
            connection.request("POST", "/v1/traces", body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                break
            assert answer.status in (429, 503), answer.status
            time.sleep(0.05)
    connection.close()


def send_grpc(address: str, bodies: list[bytes], *, packed: bool) -> None:
    how = grpc.Compression.Gzip if packed else grpc.Compression.NoCompression
    with grpc.insecure_channel(address, compression=how) as channel:
        export = channel.unary_unary(METHOD)
        for body in bodies:
            export(body)


def spent(
    command: Callable[[Path, str, str], list[str]], transport: str, bodies: list[bytes], *, packed: bool
) -> float:
    """CPU seconds of a process that receives the bodies."""
    http_, grpc_ = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as name:
        with running(command(Path(name), http_, grpc_)) as (process, used):
            for address in (http_, grpc_):
                wait_for(process, address)
            send = send_http if transport == "http" else send_grpc
            to = http_ if transport == "http" else grpc_
            threads = [
                threading.Thread(target=send, args=(to, bodies[i::CONNECTIONS]), kwargs={"packed": packed})
                for i in range(CONNECTIONS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            time.sleep(1.5)  # the Collector's exporter writes what it has
        return used[0]


def alone(folder: Path, http_: str, grpc_: str) -> list[str]:
    return [sys.executable, "-c", ALONE, str(folder / "spool"), http_, grpc_]


def collector(program: str) -> Callable[[Path, str, str], list[str]]:
    def command(folder: Path, http_: str, grpc_: str) -> list[str]:
        protocols = {"http": {"endpoint": http_}, "grpc": {"endpoint": grpc_, "max_recv_msg_size_mib": 16}}
        made = {
            "receivers": {"otlp": {"protocols": protocols}},
            "exporters": {"file": {"path": str(folder / "spans"), "format": "proto"}},
            "service": {
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
                "telemetry": {"logs": {"level": "error"}, "metrics": {"level": "none"}},
            },
        }
        (folder / "made.yaml").write_text(json.dumps(made))
        return [program, "--config", str(folder / "made.yaml")]

    return command


def main(program: str, n_spans: int = 200_000) -> None:
    """Print spans a CPU second of each, in turns."""
    sides = {"Collector, file": collector(program), "flowdiff, spool": alone}
    idle = {
        name: min(spent(command, "http", [], packed=False) for _ in range(2))
        for name, command in sides.items()
    }
    print("at rest:", ", ".join(f"{name} {cpu:.2f} s" for name, cpu in idle.items()), flush=True)
    for kind in ("light", "heavy"):
        bodies = list(messages(n_spans, heavy=kind == "heavy", begin_ns=time.time_ns() - 3_600 * 10**9))
        for packed in (False, True):
            sent = [gzip.compress(body, 1) for body in bodies] if packed else bodies
            for transport in ("http", "grpc"):
                given = bodies if transport == "grpc" else sent  # gRPC packs by itself
                rates: dict[str, list[float]] = {name: [] for name in sides}
                for _ in range(ROUNDS):
                    for name, command in sides.items():
                        cpu = spent(command, transport, given, packed=packed)
                        rates[name].append(n_spans / max(cpu - idle[name], 1e-3))
                shown = "; ".join(f"{name} {max(each):,.0f}" for name, each in rates.items())
                ratio = max(rates["flowdiff, spool"]) / max(rates["Collector, file"])
                how = "gzip" if packed else "plain"
                print(
                    f"{kind}, {transport}, {how}: spans a CPU second: {shown}; ratio {ratio:.2f}", flush=True
                )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200_000)
