"""A watch that is killed (SIGKILL) before and after everything that it writes or sends, again and again.

    python -m oracles.dying_watch LEDGER GRAIN LAKE OPTIONS...

Each life is a process with `flowdiff watch LAKE OPTIONS`; it kills itself at the first point that is not in
the file LEDGER, so every point is died at once and the last life ends by itself. GRAIN `every`: each name is
a point; `kinds`: each folder, by whether an incident is told of. Lives are forked, so that what is imported
is imported once.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from analyze.report.store import keep_report
from analyze.watch import watching
from flowdiff.__main__ import main
from flowdiff.notify import senders
from flowdiff.notify.post import post
from stitch.lake.bucket.bucket_store import BucketStore
from stitch.lake.layout import STAGE
from stitch.lake.store import LocalStore

MOST_LIVES = 2_000


class Points:
    """Where a life may end."""

    def __init__(self, ledger: Path, grain: str) -> None:
        self._ledger = ledger
        self._known = set(ledger.read_text().splitlines()) if ledger.exists() else set()
        self._every = grain == "every"
        self._last = ""

    def at(self, what: str, name: str, data: bytes) -> str:
        """The name of a point, the same in every life."""
        if name.startswith(f"{STAGE}/"):
            return f"{what} the draft of {self._last}"
        of = " of an incident" if b'"opened_ns"' in data else ""
        plain = name if self._every or what == "send" else re.sub(r"=.*|/[^/]*$", "", name) + of
        self._last = plain
        return f"{what} {plain}"

    def reach(self, point: str) -> None:
        """Die here, unless an earlier life did."""
        if point in self._known:
            return
        with self._ledger.open("a") as out:
            out.write(point + "\n")
            out.flush()
            os.fsync(out.fileno())
        os.kill(os.getpid(), signal.SIGKILL)

    def around(self, what: str, name_of: Callable[..., tuple[str, bytes]], do: Callable[..., Any]) -> Any:
        """A function that may die before and after."""

        def dying(*given: Any, **named: Any) -> Any:
            point = self.at(what, *name_of(*given))
            self.reach(f"before {point}")
            found = do(*given, **named)
            self.reach(f"after {point}")
            return found

        return dying


def live(ledger: Path, grain: str, arguments: list[str]) -> None:
    """One life."""
    points = Points(ledger, grain)
    for store in (LocalStore, BucketStore):
        for what in ("put_if_absent", "replace"):
            put = points.around(what, lambda own, name, data, stage: (name, data), getattr(store, what))
            setattr(store, what, put)
        store.remove = points.around("remove", lambda own, name: (name, b""), store.remove)  # type: ignore[method-assign]
    keep = points.around("keep", lambda *given: ("reports/one", b""), keep_report)
    send = points.around("send", lambda message, timeout_s: (_sent(message), b""), post)
    with patch.object(watching, "keep_report", keep), patch.object(senders, "post", send):
        main(["watch", *arguments])


def _sent(message: Any) -> str:
    """What is sent: an event by its id, or alerts."""
    body = json.loads(message.body)
    return f"to {message.address.target} {body['id'] if isinstance(body, dict) else 'alerts'}"


def lives(ledger: Path, grain: str, arguments: list[str]) -> int:
    """All lives; how the last one ended."""
    import_module("flowdiff.commands.watch")
    for _ in range(MOST_LIVES):
        pid = os.fork()
        if pid == 0:
            live(ledger, grain, arguments)  # ends in SystemExit
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code != -signal.SIGKILL:
            return code
    return 70


if __name__ == "__main__":
    sys.exit(lives(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
