"""Write `:name` as DuckDB has it, `$name`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

# What stands in quotes or comments is passed over, and so is a cast.
_PARTS: Final = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|::|:(?P<name>[A-Za-z_]\w*)", re.DOTALL
)


def bound_names(text: str, names: Collection[str]) -> str:
    """The statement with `$` for `:` before each of the names; a colon elsewhere is left alone."""
    return _PARTS.sub(lambda found: f"${found['name']}" if found["name"] in names else found[0], text)
