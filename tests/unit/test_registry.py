"""The list of formats: one row each, and nothing else knows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ingest import formats
from ingest.files import decode_file
from ingest.formats import FileLayout, Format, codec_for, format_names
from schemas.config import DecodeConfig
from schemas.errors import UnknownFormatError


@pytest.mark.parametrize("format_", format_names())
def test_a_format_is_read_by_the_codec_of_its_name(format_: str) -> None:
    assert codec_for(format_).name == format_


def test_another_name_is_refused_with_the_list() -> None:
    with pytest.raises(UnknownFormatError) as caught:
        codec_for("otlp")
    assert all(format_ in str(caught.value) for format_ in format_names())


THROW_AWAY = """
from dataclasses import replace
import msgspec
from ingest.codecs.native.native import NativeCodec

class ShortCodec:
    name = "short"

    def decode(self, payloads, config):
        values = [msgspec.json.decode(p) for p in payloads]
        plain = [{"breadcrumb": v["b"], "ts": v["t"], "component": "c", "point": v["p"]} for v in values]
        return NativeCodec().decode([msgspec.json.encode(p) for p in plain], config)
"""


@pytest.fixture
def short_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A format of its own: one folder and one row."""
    folder = tmp_path / "throw_away"
    folder.mkdir()
    (folder / "__init__.py").write_text(THROW_AWAY)
    monkeypatch.syspath_prepend(tmp_path)
    row = Format("short", "throw_away:ShortCodec", FileLayout.LINES, keys=(frozenset({"b", "t", "p"}),))
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, row))
    yield
    codec_for.cache_clear()


@pytest.mark.usefixtures("short_format")
@pytest.mark.parametrize("name", [None, "short"])
def test_a_format_is_added_by_a_folder_and_a_row(tmp_path: Path, name: str | None) -> None:
    path = tmp_path / "short.ndjson"
    path.write_text("".join(f'{{"b":"x{i}","t":1700000000000000000,"p":"q"}}\n' for i in range(30)))
    events = pa.concat_tables([b.events for b in decode_file(path, name, DecodeConfig(), chunk_bytes=300)])
    assert events["breadcrumb"].to_pylist() == [f"x{i}" for i in range(30)]
    assert "short" in format_names()
