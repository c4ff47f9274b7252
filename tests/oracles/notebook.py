"""Run a notebook's cells one after the other, as a kernel does.

`PYTHONPATH=tests python tests/oracles/notebook.py docs/tour.ipynb` keeps the outputs in it. Of a page that is
a picture of its top: viewers of notebooks show no frames.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import flowdiff


def executed(notebook: dict[str, Any], *, pictures: bool) -> dict[str, Any]:
    """The notebook with the outputs of its cells. Raises what a cell raises."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            outputs = _outputs("".join(cell["source"]), names, count, pictures=pictures)
            cell = {**cell, "execution_count": count, "outputs": outputs}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(source: str, names: dict[str, Any], count: int, *, pictures: bool) -> list[dict[str, Any]]:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"cell {count}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    if value is not None:
        data = _shown(value, pictures=pictures)
        outputs.append(
            {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data}
        )
    return outputs


def _shown(value: Any, *, pictures: bool) -> dict[str, str]:
    text = {"text/plain": repr(value)}
    if isinstance(value, flowdiff.Analysis):
        picture = {"image/png": base64.b64encode(_picture(value.html())).decode()} if pictures else {}
        return {"text/plain": "\n".join(repr(value).splitlines()[:6]), **picture}
    return text | ({"text/html": value._repr_html_()} if hasattr(value, "_repr_html_") else {})


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
    done = executed(json.loads(path.read_text()), pictures=True)
    path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")
