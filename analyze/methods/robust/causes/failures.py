"""Find by whom requests failed, for findings that report who felt it.

With few requests a caller's failures may be significant and those of each of its calls not. The breakdown of
errors gives each failed request to the site at which its failure began: that says whom to look at.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from analyze.methods.robust.causes.order import Order
from analyze.methods.robust.causes.settings import CausesSettings
from analyze.methods.robust.changes import CALL_KINDS, PATH_KINDS, Change
from analyze.methods.robust.roles import Roles
from analyze.profile.names import Names
from analyze.profile.profile import Profile
from analyze.stats.proportions import fisher
from schemas.arrays import I8
from schemas.report.findings import ChangeKind

_FELT = frozenset({ChangeKind.ERRORS}) | PATH_KINDS | CALL_KINDS


@dataclass(frozen=True, slots=True)
class Failures:
    """Requests by the operation at which their first failure began: one of them each."""

    n: I8
    """[2] requests of reference and problem."""
    failed: I8
    """[operations, 2]"""

    def more(self) -> list[int]:
        """List operations at which more began than did, those with most first."""
        share = self.failed / np.maximum(self.n, 1)
        rise = share[:, 1] - share[:, 0]
        order = np.argsort(-rise, kind="stable")
        return [int(at) for at in order.tolist() if rise[at] > 0]

    def callee(self, lead: Change, names: Names, order: Order, settings: CausesSettings) -> str:
        """Tell by whom most of what a change reports failed, there or below; empty for nobody, and for the
        component of the change itself."""
        operation = names.sites[lead.site].operation
        if lead.kind not in _FELT or operation in order.records:
            return ""
        own = names.operations[operation].component
        failed: dict[str, I8] = defaultdict(lambda: np.zeros(2, dtype=np.int64))
        for below in np.flatnonzero(self.failed.any(axis=1)).tolist():
            if below == operation or order.is_above(operation, below):
                component = names.operations[below].component
                callee = names.unrecorded.get(below, "")
                failed[callee or (component if component != own else "")] += self.failed[below]
        name = max(failed, key=lambda name: (int(failed[name][1]), name), default="")
        if not name:
            return ""
        (x0, x1), (n0, n1) = failed[name], self.n
        by_chance = float(fisher(*(np.array([value]) for value in (x0, n0, x1, n1))).p_more[0])
        enough = x1 / n1 - x0 / n0 >= settings.failed_by_one * lead.weight
        return name if enough and by_chance <= settings.failed_by_chance else ""


def failures_begun(profile: Profile, roles: Roles) -> Failures:
    """Take failures out of the breakdown of errors. O(rows)."""
    sides = roles.reference, roles.problem
    n = [profile.responded("n", slots) for slots in sides]
    failed = [profile.at_operations("origins", "n", slots) for slots in sides]
    return Failures(np.rint(n).astype(np.int64), np.rint(np.stack(failed, axis=1)).astype(np.int64))
