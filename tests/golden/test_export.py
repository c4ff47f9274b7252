"""Flows written out again by `flowdiff export`, in every form: spans (Zipkin) and records (X-Trace)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flowdiff.__main__ import build_app

ENDINGS = {"dot": "dot", "otlp": "otlp.txt", "native": "native.jsonl"}


def flowdiff(*arguments: str) -> None:
    result = CliRunner().invoke(build_app(["import", "export"]), list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("form", sorted(ENDINGS))
@pytest.mark.parametrize("name", ["zipkin/yelp", "xtrace/gc"])
def test_export(
    golden: Callable[[str, str], None], shared_data: Path, tmp_path: Path, name: str, form: str
) -> None:
    lake, out = tmp_path / "lake", tmp_path / "out"
    flowdiff("import", str(shared_data / f"{name}.json.gz"), "--lake", str(lake))
    flowdiff("export", "--lake", str(lake), "--format", form, "--output", str(out))
    # A span a line, so that a difference can be read: OTLP has a hundred of them on one.
    text = out.read_bytes().decode().replace('{"traceId":', '\n{"traceId":')
    golden(f"export-{Path(name).name}.{ENDINGS[form]}", text)
