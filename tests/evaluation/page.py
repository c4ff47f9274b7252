"""placeholder"""
from pathlib import Path
from typing import Any
def write_page(content: dict[str, Any], docs: Path) -> None:
    """x"""
