"""Run `flowdiff up`: start its parts as processes in order, restart parts that die, end all in order."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

from flowdiff.cli.outcome import FAILED, say
from flowdiff.cli.stopping import Stop, stopped_by_signal
from flowdiff.cli.terminal import echo
from flowdiff.cli.version import version
from flowdiff.extras import needed
from flowdiff.live.up_settings import UpSettings
from schemas.errors import FlowdiffError
from schemas.visible import visible
from schemas.windows import NS_PER_MINUTE
from stitch.lake.layout import ensure_lake, read_info
from stitch.lake.place import open_store

WINDOW_NS: Final = NS_PER_MINUTE
"""Window length of a new lake, ns: events become visible a minute later."""
QUICK: Final = ("--lateness", "10s", "--idle", "10s", "--commit-interval", "2s")
"""Options of `ingest` used without a configuration: short delays, as spans come from this machine."""
TURN_S: Final = 0.2
_ADDRESS: Final = re.compile(r"https?://\S+")
_BAD: Final = ("warning", "error", "critical")


class PartFailedError(FlowdiffError):
    """A part (child process) cannot start, or dies repeatedly."""

    slug = "part"


@dataclass
class _Part:
    """Child process of `flowdiff up`, with its arguments, log events and times of its deaths."""

    name: str
    arguments: Sequence[str]
    descriptor: int
    """Descriptor of a pipe's reading end; the pipe closes when `flowdiff up` ends, which ends the part."""
    settings: UpSettings
    is_restarted: bool = True
    """True if the part is restarted after it has died."""
    process: subprocess.Popen[str] | None = None
    told: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)
    """Queue of the part's log events, and of the address that it serves, read by `wait_for`."""
    deaths: deque[float] = field(default_factory=deque)

    def start(self) -> None:
        """Start the process, and forward its output to the output of this process."""
        # A session of its own: Ctrl-C of a terminal reaches `up` alone, which ends its parts in order.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flowdiff.live.part", str(self.descriptor), *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "FLOWDIFF_LOG_FORMAT": "json", "FLOWDIFF_LOG_LEVEL": "info"},
            pass_fds=[self.descriptor],
            start_new_session=True,
        )
        for stream, forward in ((self.process.stdout, self._said), (self.process.stderr, self._logged)):
            threading.Thread(target=_forwarded, args=[stream, forward], daemon=True).start()

    def _said(self, line: str) -> None:
        """Print a line of the part's output; a line with the address of `serve` is queued in `told`
        instead."""
        if self.name == "serve" and (found := _ADDRESS.search(line)):
            self.told.put({"event": "started", "address": found[0]})
        elif line:
            echo(visible(line))

    def _logged(self, line: str) -> None:
        """Queue an event of the part's log in `told`, and print it if it is a warning or an error; other
        lines are printed.
        """
        if not line.startswith("{"):
            if line:
                say(f"{self.name}: {visible(line.removeprefix('flowdiff: '))}")
            return
        try:
            told: Mapping[str, Any] = json.loads(line)
        except ValueError:
            told = {"event": line, "level": "error"}
        self.told.put(dict(told))
        if told.get("level") in _BAD:
            rest = {k: v for k, v in told.items() if k not in ("event", "level", "timestamp")}
            shown = " ".join(f"{key}={value}" for key, value in rest.items())
            say(f"{self.name}: {visible(str(told.get('event')))} {visible(shown)}".rstrip())

    def wait_for(self, event: str, stop: Stop) -> dict[str, Any]:
        """Wait for the next log event named `event`, and return it.

        Raises PartFailedError if the process ends first or takes too long, or if a stop is requested.
        """
        deadline = time.monotonic() + self.settings.ready_seconds
        while time.monotonic() < deadline and not stop.asked:
            try:
                told = self.told.get(timeout=TURN_S)
            except queue.Empty:
                if self.code is not None:
                    break
                continue
            if told.get("event") == event:
                return told
        raise PartFailedError(f"{self.name} did not begin.", remedy="What it said stands above.")

    @property
    def code(self) -> int | None:
        """Exit code of the process; None while it runs."""
        return None if self.process is None else self.process.poll()

    def end(self) -> None:
        """End the process by SIGTERM; kill it after `end_seconds`."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(self.settings.end_seconds)
        except subprocess.TimeoutExpired:
            say(f"{self.name} does not end: killed.")
            self.process.kill()
            self.process.wait()

    def mend(self, now_s: float) -> None:
        """Restart the process if it has died. now_s: monotonic clock. Raises PartFailedError if it dies
        repeatedly.
        """
        code = self.code
        if code is None or not self.is_restarted:
            return
        while self.deaths and now_s - self.deaths[0] > self.settings.deaths_seconds:
            self.deaths.popleft()
        self.deaths.append(now_s)
        if len(self.deaths) > self.settings.deaths:
            raise PartFailedError(
                f"{self.name} ended {len(self.deaths)} times in a few minutes, last with code {code}.",
                remedy="What it said stands above.",
            )
        say(f"{self.name} ended with code {code}: starting it again.")
        self.start()


def _forwarded(stream: IO[str] | None, forward: Any) -> None:
    assert stream is not None
    with stream:
        for line in stream:
            forward(line.rstrip("\n"))


def up(
    lake: Path,
    otlp: str,
    otlp_grpc: str,
    listen: str,
    config: Path | None,
    settings: UpSettings,
    *,
    is_demo: bool,
    has_config: bool,
) -> int:
    """Run all parts until a signal; return the exit code. Raises FlowdiffError.

    has_config: True if settings come from a configuration instead of QUICK.
    """
    with needed():  # missing packages end the command before any part starts
        import grpc  # noqa: F401
        import uvicorn  # noqa: F401
    given = ["--config", str(config)] if config is not None else []
    quick = () if has_config else QUICK
    _prepare(lake, has_config=has_config)
    reading, writing = os.pipe()
    parts: list[_Part] = []

    def started(name: str, *arguments: str, is_restarted: bool = True) -> _Part:
        part = _Part(name, arguments, reading, settings, is_restarted)
        parts.append(part)
        part.start()
        return part

    with stopped_by_signal() as stop:
        try:

            def receiving(http: str, grpc: str) -> list[str]:
                return [
                    *("ingest", "--lake", str(lake), "--otlp", http, "--otlp-grpc", grpc),
                    *("--serve-address", "", *quick, *given),
                ]

            ingest = started("ingest", *receiving(otlp, otlp_grpc))
            began = ingest.wait_for("started", stop)
            # A restarted part keeps the free port that it chose; the same for `serve`.
            ingest.arguments = receiving(str(began["otlp"]), str(began["otlp_grpc"]))
            started("watch", "watch", str(lake), *given)
            serve = started("serve", "serve", str(lake), "--listen", listen)
            address = str(serve.wait_for("started", stop)["address"])
            serve.arguments = ["serve", str(lake), "--listen", urlsplit(address).netloc]
            echo(f"Send spans to  http://{began['otlp']} (OTLP over HTTP) or {began['otlp_grpc']} (gRPC)")
            echo(f"Look at        {address}")
            echo(f"Kept in        {lake}")
            if is_demo:
                started("demo", "demo-service", str(began["otlp"]), is_restarted=False)
            while not stop.asked:
                for part in parts:
                    part.mend(time.monotonic())
                time.sleep(TURN_S)
        except PartFailedError as error:
            if not stop.asked:
                say(str(error))
                return FAILED
        finally:
            for name in ("demo", "ingest", "watch", "serve"):
                for part in parts:
                    if part.name == name:
                        part.end()
            os.close(reading)
            os.close(writing)
    return 0


def _prepare(lake: Path, *, has_config: bool) -> None:
    """Create the lake's folder and, without a configuration, a new lake with short windows."""
    lake.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = open_store(str(lake))
    if read_info(store, str(lake)) is None and not has_config:
        ensure_lake(store, WINDOW_NS, WINDOW_NS, f"flowdiff {version()}", lake=str(lake))
