"""Reports of finished jobs: a file each, named by the question's identity; the oldest give way."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

_KEY: Final = re.compile(r"[0-9a-f]{32}")


class Results:
    """Folder of results, which may outlive the server."""

    def __init__(self, folder: Path, most: int) -> None:
        """most: files kept."""
        self._folder = folder
        self._most = most
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, key: str) -> Path:
        """Place of a result. Raises ValueError for a key that is none."""
        if _KEY.fullmatch(key) is None:
            raise ValueError(f"'{key}' is no key of a result")
        return self._folder / f"{key}.json"

    def read(self, key: str) -> bytes | None:
        """JSON of a report; None if it is not kept (any more)."""
        try:
            path = self.path(key)
            found = path.read_bytes()
        except (ValueError, OSError):
            return None
        with suppress(OSError):
            path.touch()  # what is asked for stays
        return found

    def forget_oldest(self) -> None:
        """Remove what is beyond the bound, the longest unread first."""
        written = []
        for path in self._folder.glob("*.json"):
            with suppress(OSError):
                written.append((path.stat().st_mtime_ns, path))
        for _, path in sorted(written)[: max(len(written) - self._most, 0)]:
            with suppress(OSError):  # at the next one
                path.unlink(missing_ok=True)
