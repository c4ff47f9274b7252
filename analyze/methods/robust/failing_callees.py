"""Who fails those that fail: where failures began, for findings that tell of who felt them.

With few requests a caller's failures may be told by test and those of each of its calls not: then the account
of errors, which gives each failed request to the site at which the failure began, says whom to look at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from analyze.findings.groups import CALL_KINDS, PATH_KINDS, Group
from analyze.findings.places import Context
from analyze.methods.robust.roles import Roles
from analyze.sites.names import Names
from analyze.sites.profile import Profile
from analyze.sites.totals import totals
from schemas.report.findings import ChangeKind

F8 = npt.NDArray[np.float64]

_MOST_OF_IT = 0.5
"""Of what a finding tells of must have failed by one callee."""
_FELT = frozenset({ChangeKind.ERRORS}) | PATH_KINDS | CALL_KINDS
_MOST_ASKED = 20


def failures_begun(profile: Profile, roles: Roles) -> dict[int, float]:
    """Operation -> share of the requests that failed from there, problem less reference; most first."""
    table, requests = profile.origins, profile.responses
    operation = np.array([site.operation for site in profile.names.sites], dtype=np.int64)
    n = len(profile.names.operations)
    share: list[F8] = []
    for inside in (roles.reference, roles.problem):
        mine = inside[table["slot"].to_numpy()]
        failed = totals(operation[table["site"].to_numpy()[mine]], table["w"].to_numpy()[mine], n)
        whole = float(requests["w"].to_numpy()[inside[requests["slot"].to_numpy()]].sum())
        share.append(failed / max(whole, 1e-300))
    more = share[1] - share[0]
    order = np.argsort(-more, kind="stable")[:_MOST_ASKED]
    return {int(at): float(more[at]) for at in order.tolist() if more[at] > 0}


def with_failing_callees(
    groups: Sequence[Group], begun: Mapping[int, float], context: Context
) -> tuple[Group, ...]:
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


def _callee(group: Group, begun: Mapping[int, float], context: Context) -> str:
    names = context.names
    own = names.operations[group.operation].component
    failed: dict[str, float] = defaultdict(float)
    for operation, share in begun.items():
        if operation == group.operation or context.is_above(group.operation, operation):
            component = names.operations[operation].component
            callee = names.unrecorded.get(operation, "")
            failed[callee or (component if component != own else "")] += share
    name = max(failed, key=lambda name: (failed[name], name), default="")
    return name if name and failed[name] >= _MOST_OF_IT * max(group.lead.weight, 1e-12) else ""


def _both_fail(one: Group, other: Group) -> bool:
    return one.lead.kind is ChangeKind.ERRORS and other.lead.kind is ChangeKind.ERRORS


def _calls_it(group: Group, names: Names) -> bool:
    return names.callee(group.operation) == group.suspect
