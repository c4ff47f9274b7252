"""Explain changes that differ from the history but not from the reference: they began before the problem."""

from __future__ import annotations

from collections.abc import Sequence

from analyze.methods.robust.changes import Change
from analyze.methods.robust.comparison import Comparison
from analyze.methods.robust.confounders.port import Confounder, Explained, counted_changes


class AbnormalReference(Confounder):
    """Confounder for an abnormal reference: explains changes against the history that already show in the
    reference."""

    name = "abnormal-reference"
    doc = "An incident that began before the reference is no change of the problem period."
    case = "recordings: the same incident on both sides"

    def explains(self, changes: Sequence[Change], comparison: Comparison) -> Explained | None:
        """Explain all changes with `Change.there_before`."""
        found = tuple(change for change in changes if change.there_before)
        if not found:
            return None
        names = comparison.profile.names
        first = names.operation(max(found, key=lambda change: abs(change.z)).site)
        where = f"{first.component}/{first.point}"
        one = len(found) == 1
        return Explained(
            "quality",
            f"The reference is not normal: {counted_changes(found)} ({where if one else f'first {where}'}) "
            f"{'differs' if one else 'differ'} from the history and not from the reference, so "
            f"{'it was' if one else 'they were'} there before the problem period.",
            found,
            severe=True,
        )
