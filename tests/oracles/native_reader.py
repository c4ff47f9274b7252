"""The native reader of OTLP protobuf, for tests that need it."""

from __future__ import annotations

import shutil

import pytest

from ingest.codecs.otlp.wire.library import Library, native_library


def needed_library() -> Library:
    """The library; the test is skipped where there is no cargo to build it, and fails where there is."""
    found = native_library()
    if found.library is None and shutil.which("cargo") is None:
        pytest.skip("no cargo, so no native reader")
    if found.library is None:
        pytest.fail(found.reader, pytrace=False)
    return found.library
