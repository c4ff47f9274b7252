"""State of the builder of a live process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BuildStatus:
    """State of the builder of a process."""

    builds: bool = False
    """True if this process was elected."""
    windows: int = 0
    """Windows that are over and wait to be built, late ones among them."""
    sealed_to_ns: int | None = None
    """Every window that ends here or before is built, as far as this process knows."""
    trouble: str | None = None
    """Reason why it cannot build; None: it can."""
