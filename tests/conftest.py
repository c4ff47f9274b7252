"""Fixtures and options shared by every kind of test."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent


# Loaded before any test module, whose `@settings` take the rest from here. `repeatable` is what everyone
# runs: the same examples everywhere and always. `make fuzz` asks for `fuzz`: fresh seeds, failures kept.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("fuzz", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("repeatable")


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
    """Real traces, which nobody here wrote; see the README there."""
    return REPOSITORY / "tests" / "data"
