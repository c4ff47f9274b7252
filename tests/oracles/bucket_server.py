"""A real S3 server on a free port of this machine, in a process of its own."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 30
BUCKET = "lakes"
KEYS = {"AWS_ACCESS_KEY_ID": "test-key-id", "AWS_SECRET_ACCESS_KEY": "test-secret-of-bucket"}

MOTO = """
import threading
from functools import cache
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.s3.responses import S3Response
from moto.server import main
from werkzeug.serving import WSGIRequestHandler
DomainDispatcherApplication.get_backend_for_host = cache(DomainDispatcherApplication.get_backend_for_host)
WSGIRequestHandler.log_request = lambda *_: None
put, one_at_a_time = S3Response._key_response_put, threading.RLock()
def locked(*words):
    with one_at_a_time:
        return put(*words)
S3Response._key_response_put = locked
main()
"""
"""moto looks whether an object is there and puts it later: of two puts of `If-None-Match: *` both win. With
each request it looks anew which services it has, folder by folder, which takes two fifths of its time.
"""


@dataclass(frozen=True)
class BucketServer:
    """See the module."""

    endpoint: str
    lets_all_in: bool = False

    @property
    def host_port(self) -> str:
        return self.endpoint.removeprefix("http://")

    @property
    def environ(self) -> dict[str, str]:
        """What a user would set."""
        return {
            **KEYS,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_CA_BUNDLE": "",
            "AWS_EC2_METADATA_DISABLED": "true",
            "FLOWDIFF_BUCKET_TIMEOUT": "10",
        }

    def new_lake(self) -> str:
        """Name of a lake that is not there yet."""
        return f"s3://{BUCKET}/{uuid.uuid4().hex[:12]}/shop"

    def make_bucket(self) -> BucketServer:
        import boto3

        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()
        return self

    @contextmanager
    def asking_for_keys(self) -> Iterator[None]:
        """Within it the server knows nobody who asks with other keys; moto else lets everybody in."""
        if not self.lets_all_in:
            yield
            return
        self._reset_auth(b"0")
        try:
            yield
        finally:
            self._reset_auth(b"inf")

    def _reset_auth(self, after_requests: bytes) -> None:
        connection = http.client.HTTPConnection(self.host_port, timeout=10)
        connection.request("POST", "/moto-api/reset-auth", after_requests)
        assert connection.getresponse().status == 200
        connection.close()


def chosen_server(folder: Path) -> AbstractContextManager[BucketServer]:
    """moto's server; with FLOWDIFF_TEST_VERSITYGW=<program> (see `make buckets`) that gateway instead."""
    program = os.environ.get("FLOWDIFF_TEST_VERSITYGW")
    return moto_server(folder / "log") if program is None else versitygw_server(Path(program), folder)


@contextmanager
def moto_server(log: Path) -> Iterator[BucketServer]:
    """moto's own server process. Fails where it does not start."""
    command = [sys.executable, "-c", MOTO, "-H", "127.0.0.1", "-p", "0"]
    with running(command, log) as process:
        pattern = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")
        yield BucketServer(said(process, log, pattern), lets_all_in=True).make_bucket()


@contextmanager
def versitygw_server(program: Path, folder: Path) -> Iterator[BucketServer]:
    """A gateway to a folder, with its metadata: without (`--nometa`) it overwrites what is there."""
    with mortal_versitygw(program, folder) as (server, _):
        yield server.make_bucket()


@contextmanager
def mortal_versitygw(program: Path, folder: Path) -> Iterator[tuple[BucketServer, Callable[[], None]]]:
    """The same without a bucket, and what kills it and starts it again, at the same address, on the same
    folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (folder / "data").mkdir()
    (folder / "meta").mkdir()
    keys = {"ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"], "ROOT_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]}
    places = ["--sidecar", str(folder / "meta"), str(folder / "data")]
    command = [str(program), "--port", address, "--quiet", "posix", *places]
    with ExitStack() as life:

        def start() -> None:
            life.close()
            process = life.enter_context(running(command, folder / "log", keys))
            for _ in range(START_SECONDS * 20):
                assert process.poll() is None, (folder / "log").read_text(errors="replace")[-2000:]
                with suppress(OSError), socket.create_connection(tuple_of(address), timeout=1):
                    break
                time.sleep(0.05)

        start()
        yield BucketServer(f"http://{address}"), start


def tuple_of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


@contextmanager
def running(
    command: list[str], log: Path, environ: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **(environ or {})}, start_new_session=True
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def said(process: subprocess.Popen[bytes], log: Path, pattern: re.Pattern[str]) -> str:
    """The first group of what the process says within START_SECONDS."""
    for _ in range(START_SECONDS * 20):
        if match := pattern.search(log.read_text(errors="replace")):
            return match[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError(f"the server did not start:\n{log.read_text(errors='replace')[-2000:]}")
