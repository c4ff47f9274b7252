"""State of the window builder of a live process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BuildStatus:
    """State of the window builder of a live process, as of its last step."""

    builds: bool = False
    """True if this process is elected to build the windows of the lake."""
    windows: int = 0
    """Number of windows that are finished but not built, or that late events require to be rebuilt."""
    sealed_to_ns: int | None = None
    """All windows that end by this time, ns since the epoch, are built, as far as this process knows; None:
    no window is built."""
    trouble: str | None = None
    """Sentence on why this process failed to build windows; None: it did not, or another one builds since."""
    has_given_up: bool = False
    """True if this process left building to another one after failures, and was not elected since."""
    sweep_trouble: str | None = None
    """Sentence on why files of replaced windows cannot be removed; None: they can. Windows are built."""

    @property
    def troubles(self) -> str | None:
        """All that is wrong, as sentences; None if nothing is."""
        return " ".join(filter(None, (self.trouble, self.sweep_trouble))) or None
