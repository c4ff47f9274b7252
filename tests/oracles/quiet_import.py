"""Progress of an import that nobody watches."""

from __future__ import annotations


class Quiet:
    """See the module."""

    def begin(self, total_bytes: int) -> None: ...

    def decoded(self, file_bytes: int, events: int) -> None: ...

    def stitched(self, flows: int) -> None: ...
