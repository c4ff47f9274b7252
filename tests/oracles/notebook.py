"""Run a notebook's cells in a kernel of Jupyter, one after the other, as `jupyter execute` does.

`PYTHONPATH=tests python tests/oracles/notebook.py docs/internals/tour.ipynb` keeps the outputs in it. Of a
page that is a picture of its top: viewers of notebooks show no frames.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from jupyter_core.utils import ensure_event_loop

_SECONDS = 600
_PAGE = re.compile(r'<iframe [^>]*srcdoc="(?P<page>[^"]*)"')
_SHOWN = ("stream", "display_data", "execute_result", "error")


class CellError(Exception):
    """A cell raised; its message is the traceback's last line."""


@contextmanager
def kernel(folder: Path) -> Iterator[BlockingKernelClient]:
    """A kernel of this Python that works in a folder."""
    with tempfile.TemporaryDirectory() as sockets:
        own, context = Path(sockets), zmq.Context()
        manager = KernelManager(
            kernel_name="python3",
            transport="ipc",
            connection_file=str(own / "kernel.json"),
            ip=str(own / "kernel"),
            context=context,
        )
        manager.start_kernel(cwd=str(folder), env={**os.environ, "TMPDIR": sockets})
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=_SECONDS)
            yield client
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            context.destroy(linger=0)
            ensure_event_loop().close()  # the client's


def cell(client: BlockingKernelClient, source: str) -> list[dict[str, Any]]:
    """What a cell shows, as a notebook keeps it. Raises CellError for what it raises."""
    shown: list[dict[str, Any]] = []

    def take(message: dict[str, Any]) -> None:
        if message["msg_type"] in _SHOWN:
            shown.append({"output_type": message["msg_type"], **message["content"]})

    reply = client.execute_interactive(source, output_hook=take, timeout=_SECONDS)["content"]
    if reply["status"] != "ok":
        raise CellError(f"{reply.get('ename')}: {reply.get('evalue')}")
    return [{key: part for key, part in one.items() if key != "transient"} for one in shown]


def executed(notebook: dict[str, Any], folder: Path, *, pictures: bool) -> dict[str, Any]:
    """The notebook with the outputs of its cells, run in a folder. Raises CellError."""
    count = 0
    cells = []
    with kernel(folder) as client:
        for one in notebook["cells"]:
            if one["cell_type"] == "code":
                count += 1
                outputs = cell(client, "".join(one["source"]))
                kept = [_kept(output, pictures=pictures) for output in _joined(outputs)]
                one = {**one, "execution_count": count, "outputs": kept}
            cells.append(one)
    return {**notebook, "cells": cells}


def _joined(outputs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is printed comes in pieces, and is one."""
    joined: list[dict[str, Any]] = []
    for output in outputs:
        is_more = joined and output["output_type"] == "stream" == joined[-1]["output_type"]
        if is_more and output["name"] == joined[-1]["name"]:
            joined[-1] = {**joined[-1], "text": joined[-1]["text"] + output["text"]}
        else:
            joined.append(output)
    return joined


def _kept(output: dict[str, Any], *, pictures: bool) -> dict[str, Any]:
    page = _PAGE.search(output.get("data", {}).get("text/html", ""))
    if page is None:
        return output
    picture = _picture(unescape(page["page"])) if pictures else b""
    head = "\n".join(output["data"]["text/plain"].splitlines()[:6])
    data = {"text/plain": head, "image/png": base64.b64encode(picture).decode()}
    return {**output, "data": data}


def _picture(page: str) -> bytes:
    from fixtures.chromium_pages import browser_path

    with tempfile.TemporaryDirectory() as folder:
        file, picture = Path(folder, "page.html"), Path(folder, "page.png")
        file.write_text(page)
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,760"]
        command = [browser_path(), *options, f"--screenshot={picture}", file.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        return picture.read_bytes()


if __name__ == "__main__":
    path = Path(sys.argv[1])
    done = executed(json.loads(path.read_text()), path.parent, pictures=True)
    path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")
