"""Registry of confounders, in order of application: recording first, load last. A change explained by one is
not offered to later ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from analyze.methods.robust.changes import Change
from analyze.methods.robust.comparison import Comparison
from analyze.methods.robust.confounders.abnormal_reference import AbnormalReference
from analyze.methods.robust.confounders.load import Load
from analyze.methods.robust.confounders.lost_instrumentation import LostInstrumentation
from analyze.methods.robust.confounders.lost_records import LostRecords
from analyze.methods.robust.confounders.moved_clocks import MovedClocks
from analyze.methods.robust.confounders.outlying_windows import OutlyingWindows
from analyze.methods.robust.confounders.port import Confounder, Explained
from analyze.methods.robust.confounders.renamed_operations import RenamedOperations
from analyze.methods.robust.confounders.root_mix import RootMix

CONFOUNDERS: Final[tuple[Confounder, ...]] = (
    OutlyingWindows(),
    RenamedOperations(),
    LostInstrumentation(),
    LostRecords(),
    MovedClocks(),
    AbnormalReference(),
    RootMix(),
    Load(),
)

_REAL: Final = (AbnormalReference.name, Load.name)
"""Names of the confounders whose changes are changes of the service, and not of its recording."""


@dataclass(frozen=True, slots=True)
class Confounded:
    """Significant changes, divided into those that become findings and those that a confounder explains."""

    kept: tuple[Change, ...]
    """Changes that no confounder explains; they become findings."""
    explained: Mapping[str, Explained]
    """Name of a confounder -> the changes that it explains, with its text for the report; confounders that
    are not present have no entry."""

    def text(self, name: str) -> str:
        """Text of the named confounder for the report; empty if it is not present."""
        return self.explained[name].text if name in self.explained else ""

    def changes(self, name: str) -> tuple[Change, ...]:
        """Changes that the named confounder explains; empty if it is not present."""
        return self.explained[name].changes if name in self.explained else ()

    @property
    def hidden_paths(self) -> float:
        """Largest change of the share of a call pattern, in [0, 1], that any of the confounders could hide; 0
        if none could."""
        return max((one.hidden_paths for one in self.explained.values()), default=0.0)

    def given_up(self, name: str, taken: Collection[int], comparison: Comparison) -> Confounded:
        """Copy in which the named confounder no longer explains the changes in `taken`, since they belong to
        a finding.

        taken: `id()` of each such change.
        """
        left = [change for change in self.changes(name) if id(change) not in taken]
        if len(left) == len(self.changes(name)):
            return self
        others = {key: one for key, one in self.explained.items() if key != name}
        again = (
            next(one for one in CONFOUNDERS if one.name == name).explains(left, comparison) if left else None
        )
        return replace(self, explained=others | ({} if again is None else {name: again}))


def adjusted(comparison: Comparison) -> Comparison:
    """Comparison after adjustment by each enabled confounder in turn."""
    for confounder in _used(comparison):
        comparison = confounder.adjust(comparison)
    return comparison


def confounded(changes: Sequence[Change], comparison: Comparison) -> Confounded:
    """Divide changes into explained ones and others; each enabled confounder in turn gets the changes that
    earlier ones did not explain."""
    left = list(changes)
    explained = {}
    for confounder in _used(comparison):
        found = confounder.explains(left, comparison)
        if found is not None:
            explained[confounder.name] = found
            gone = {id(change) for change in found.changes}
            left = [change for change in left if id(change) not in gone]
    return Confounded(tuple(left), explained)


def recorded_changes(changes: Sequence[Change], comparison: Comparison) -> list[Change]:
    """Changes without those that recording, names or clocks explain. Changes that load explains, or that
    began before the problem, are kept: a gate must not pass because of these."""
    found = confounded(changes, comparison)
    kept = [*found.kept, *(change for name in _REAL for change in found.changes(name))]
    wanted = {id(change) for change in kept}
    return [change for change in changes if id(change) in wanted]


def _used(comparison: Comparison) -> list[Confounder]:
    return [one for one in CONFOUNDERS if one.name not in comparison.settings.without]
