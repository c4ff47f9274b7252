"""Example queries: those of docs/internals/recipes.md that work on every lake, one per file.

The first line of a file is its title.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Final


@dataclass(frozen=True, slots=True)
class Recipe:
    """An example query with its title."""

    title: str
    query: str


def _read() -> tuple[Recipe, ...]:
    found = []
    for file in sorted(files(__name__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            title, _, query = file.read_text(encoding="utf-8").partition("\n")
            found.append(Recipe(title.removeprefix("-- "), query.strip()))
    return tuple(found)


RECIPES: Final = _read()
