"""The usual run of property tests repeats itself."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st


def examples() -> list[int]:
    """What one run of a property draws."""
    seen: list[int] = []

    @given(st.integers())
    def draw(number: int) -> None:
        seen.append(number)

    draw()
    return seen


def test_examples_are_the_same_in_every_run() -> None:
    assert examples() == examples()
    assert settings.default is not None
    assert settings.default.database is None, "a failure kept from another run would be tried first"
