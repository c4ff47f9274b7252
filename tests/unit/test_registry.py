"""The list of formats."""

from __future__ import annotations

import pytest

from ingest.formats import FORMATS, codec_for
from schemas.errors import UnknownFormatError


@pytest.mark.parametrize("format_", FORMATS)
def test_a_format_is_read_by_the_codec_of_its_name(format_: str) -> None:
    assert codec_for(format_).name == format_


def test_another_name_is_refused_with_the_list() -> None:
    with pytest.raises(UnknownFormatError) as caught:
        codec_for("otlp")
    assert all(format_ in str(caught.value) for format_ in FORMATS)
