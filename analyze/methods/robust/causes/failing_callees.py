"""Who fails those that fail: where failures began, for findings that tell of who felt them.

With few requests a caller's failures may be told by test and those of each of its calls not: then the account
of errors, which gives each failed request to the site at which the failure began, says whom to look at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.causes.groups import Group
from analyze.methods.robust.causes.places import Context
from analyze.methods.robust.changes import CALL_KINDS, PATH_KINDS
from analyze.methods.robust.roles import Roles
from analyze.profile.names import Names
from analyze.profile.profile import Profile
from analyze.stats.proportions import fisher
from analyze.stats.sums import totals
from schemas.report.findings import ChangeKind

I8 = npt.NDArray[np.int64]

_MOST_OF_IT = 0.5
"""Of what a finding tells of must have failed by one callee."""
_CHANCE = 0.01
"""That as many more fail by it."""
_FELT = frozenset({ChangeKind.ERRORS}) | PATH_KINDS | CALL_KINDS
_MOST_ASKED = 20


@dataclass(frozen=True, slots=True)
class Failures:
    """Requests by the operation at which their first failure began: one of them each."""

    n: I8
    """[2] requests of reference and problem."""
    failed: I8
    """[operations, 2]"""

    def more(self) -> list[int]:
        """Operations at which more began than did, those with most first; a few."""
        share = self.failed / np.maximum(self.n, 1)
        rise = share[:, 1] - share[:, 0]
        order = np.argsort(-rise, kind="stable")[:_MOST_ASKED]
        return [int(at) for at in order.tolist() if rise[at] > 0]


def failures_begun(profile: Profile, roles: Roles) -> Failures:
    """Out of the account of errors. O(rows)."""
    table, responses = profile.origins, profile.responses
    operation = np.array([site.operation for site in profile.names.sites], dtype=np.int64)
    n, failed = [], []
    for inside in (roles.reference, roles.problem):
        mine = inside[table["slot"].to_numpy()]
        at = operation[table["site"].to_numpy()[mine]]
        failed.append(totals(at, table["n"].to_numpy()[mine], len(profile.names.operations)))
        n.append(responses["n"].to_numpy()[inside[responses["slot"].to_numpy()]].sum())
    return Failures(np.rint(n).astype(np.int64), np.rint(np.stack(failed, axis=1)).astype(np.int64))


def with_failing_callees(groups: Sequence[Group], begun: Failures, context: Context) -> tuple[Group, ...]:
    """Groups with whom to look at, where most of what they tell of failed by one callee, here or below.

    Those that fail by one callee are one; the call itself leads.
    """
    for group in groups:
        if not group.suspect and group.lead.kind in _FELT and group.operation not in context.records:
            group.suspect = _callee(group, begun, context)
    kept: list[Group] = []
    for group in groups:
        same = [
            other
            for other in kept
            if group.suspect and other.suspect == group.suspect and _both_fail(group, other)
        ]
        if not same:
            kept.append(group)
        elif _calls_it(group, context.names) and not _calls_it(same[0], context.names):
            group.take(same[0])
            kept[kept.index(same[0])] = group
        else:
            same[0].take(group)
    return tuple(kept)


def _callee(group: Group, begun: Failures, context: Context) -> str:
    """By whom most of what a group tells of failed; empty for nobody, and for the group's own component."""
    names = context.names
    own = names.operations[group.operation].component
    failed: dict[str, I8] = defaultdict(lambda: np.zeros(2, dtype=np.int64))
    for operation in np.flatnonzero(begun.failed.any(axis=1)).tolist():
        if operation == group.operation or context.is_above(group.operation, operation):
            component = names.operations[operation].component
            callee = names.unrecorded.get(operation, "")
            failed[callee or (component if component != own else "")] += begun.failed[operation]
    name = max(failed, key=lambda name: (int(failed[name][1]), name), default="")
    if not name:
        return ""
    (x0, x1), (n0, n1) = failed[name], begun.n
    by_chance = float(fisher(*(np.array([value]) for value in (x0, n0, x1, n1))).p_more[0])
    enough = x1 / n1 - x0 / n0 >= _MOST_OF_IT * group.lead.weight
    return name if enough and by_chance <= _CHANCE else ""


def _both_fail(one: Group, other: Group) -> bool:
    return one.lead.kind is ChangeKind.ERRORS and other.lead.kind is ChangeKind.ERRORS


def _calls_it(group: Group, names: Names) -> bool:
    return names.callee(group.operation) == group.suspect
