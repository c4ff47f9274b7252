"""Serve `flowdiff` to shells as a command that `fork_server` forks: real programs, without the imports.

What a shell starts is a small Python that gives its arguments, folder, environment and all its descriptors to
the test's process, whose child the program then is, and ends as that ends. With a standard stream that is
closed, it becomes a `python -m flowdiff` instead.
"""

from __future__ import annotations

import marshal
import os
import shlex
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from oracles import fork_server

_MOST_BYTES, _MOST_DESCRIPTORS = 1 << 20, 32
_CLIENT: Final = """
import marshal, os, socket, sys
numbers = [n for n in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{n}")]
if not {0, 1, 2} <= {*numbers}:
    os.execv(sys.executable, [sys.executable, "-m", "flowdiff", *sys.argv[2:]])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
    asking.connect(sys.argv[1])
    asked = (sys.argv[2:], os.getcwd(), dict(os.environ), numbers)
    socket.send_fds(asking, [marshal.dumps(asked)], numbers)
    for number in numbers:
        os.close(number)
    code = int(asking.recv(16))
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@contextmanager
def forked_command(folder: Path) -> Iterator[Path]:
    """A folder with a program `flowdiff`, made in `folder`, for PATH. It serves as long as the block runs."""
    place, (address, client, script) = folder / "bin", ("asked", "client.py", "flowdiff")
    place.mkdir()
    (place / client).write_text(_CLIENT)
    python = f"{shlex.quote(sys.executable)} -S {shlex.quote(str(place / client))}"
    (place / script).write_text(f'#!/bin/sh\nexec {python} {shlex.quote(str(place / address))} "$@"\n')
    (place / script).chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(place / address))
        listening.listen()
        serving = threading.Thread(target=_serve, args=[listening], daemon=True)
        serving.start()
        yield place
        listening.shutdown(socket.SHUT_RDWR)
        serving.join()


def _serve(listening: socket.socket) -> None:
    while True:
        try:
            asking, _ = listening.accept()
        except OSError:  # the block has ended
            return
        threading.Thread(target=_run, args=[asking], daemon=True).start()


def _run(asking: socket.socket) -> None:
    with asking:
        text, descriptors, *_ = socket.recv_fds(asking, _MOST_BYTES, _MOST_DESCRIPTORS)
        words, place, environ, numbers = marshal.loads(text)
        try:
            child = fork_server.fork(
                fork_server.Asked(["-m", "flowdiff", *words], place, environ, numbers, False), descriptors
            )
        finally:
            for end in descriptors:
                os.close(end)
        asking.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
