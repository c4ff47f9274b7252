"""Fixtures and options shared by every kind of test."""

from __future__ import annotations

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    # Here and not in tests/golden: pytest asks only the first conftest files for options.
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write what the golden tests find to tests/golden/expected",
    )


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real traces nobody here wrote; they lie beside the checkout: a test that needs them fails without."""
    folder = REPOSITORY.parent / "shared" / "data"
    assert folder.is_dir(), f"{folder} is missing: the real traces of ../shared/data are needed by this test"
    return folder
