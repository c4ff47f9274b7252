"""The command line in this process: what a shell would see, without half a second of start-up a command."""

from __future__ import annotations

import io
import sys
from typing import NamedTuple
from unittest.mock import patch

from flowdiff.__main__ import main


class Ended(NamedTuple):
    """A command that ended."""

    code: int
    out: str
    err: str


def command(*arguments: str, stdin: bytes = b"") -> Ended:
    """Run `flowdiff` with streams of its own; nothing of it is replaced."""
    streams = [io.TextIOWrapper(io.BytesIO(given), encoding="utf-8") for given in (stdin, b"", b"")]
    code = 0
    with patch.multiple(sys, stdin=streams[0], stdout=streams[1], stderr=streams[2]):
        try:
            main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
    texts = []
    for stream in streams[1:]:
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return Ended(code, *texts)
