"""State of the window builder of a live process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BuildStatus:
    """State of the window builder of a live process, as of its last step."""

    builds: bool = False
    """True if this process was elected to build the windows of the lake."""
    windows: int = 0
    """Number of finished windows waiting to be built, or to be built again because of late events."""
    sealed_to_ns: int | None = None
    """Time, ns since the epoch, up to which all windows are built, as far as this process knows; None: no
    window is."""
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
