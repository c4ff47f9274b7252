"""Deployments: a new version is compared with the others in the same windows, looked at again and again.

After 1, 2, 4, 8 and 16 windows, each look at half the level of the one before, so that looking often costs
nothing. Where the versions do not overlap, what came after is compared with what was before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow.compute as pc

from analyze.load import read_params
from analyze.scope import LakePeriod
from analyze.sql.session import open_session
from analyze.watch.decide import CHANGED, UNSURE, Decide, Decision, Range, joined
from analyze.watch.incidents import direction_of
from schemas.config import Config
from schemas.report.findings import ChangeKind

FIRST_LEVEL: Final = 0.0015
"""q of the first look: half of what a comparison asks for."""
MOST_VERSIONS: Final = 10_000
"""Values of one parameter that are remembered; one that has more names no version."""


class Rollout(Config):
    """A deployment that is looked at."""

    component: str
    version: str
    start_ns: int
    """Start of the first window that has it."""
    windows: int = 0
    looks: int = 0


class Versions(Config):
    """Versions that were seen, and deployments that go on."""

    seen: tuple[str, ...] = ()
    rollouts: tuple[Rollout, ...] = ()


def versions_in(here: LakePeriod, key: str) -> frozenset[str]:
    """Values of the parameter in a window."""
    if not here.params:
        return frozenset()
    rows = read_params(here, keys=[key])
    return frozenset(value for value in pc.unique(rows["text"]).to_pylist() if value)


def components_of(here: LakePeriod, key: str, version: str) -> tuple[str, ...]:
    """Components that have a version in a window, the one with most calls first."""
    with open_session(here) as session:
        rows = session.query(
            "SELECT n.component AS component, count(*) AS n FROM params AS p JOIN nodes AS n"
            " ON p.request_id = n.request_id AND p.kind = n.kind AND p.position = n.position"
            " WHERE p.key = ? AND p.text = ? GROUP BY 1 ORDER BY 2 DESC, 1",
            [key, version],
        )
    return tuple(rows["component"].to_pylist())


def noticed(state: Versions, here: LakePeriod, key: str) -> Versions:
    """The state after a window: new versions become deployments, unless nothing was known before."""
    found = versions_in(here, key)
    new = sorted(found - {*state.seen})
    end = here.windows[0].end_ns
    rollouts = [
        one.model_copy(update={"windows": one.windows + 1}) if end > one.start_ns else one
        for one in state.rollouts
    ]
    if state.seen and len(state.seen) + len(new) <= MOST_VERSIONS:
        start = here.windows[0].start_ns
        rollouts += [
            Rollout(component=component, version=version, start_ns=start, windows=1)
            for version in new
            for component in components_of(here, key, version)[:1]
        ]
    return Versions(seen=tuple(sorted({*state.seen, *new})[:MOST_VERSIONS]), rollouts=tuple(rollouts))


def is_due(rollout: Rollout) -> bool:
    """Whether the next look is now: after 1, 2, 4 … windows."""
    return rollout.windows >= 1 << rollout.looks


def looked_at(
    rollout: Rollout, key: str, during: Sequence[Range], before: Sequence[Range], decide: Decide
) -> Decision:
    """A look: the version against the others in the same windows, else against what was before.

    What a person marked names no component: before and after are compared.
    """
    if rollout.component:
        found = _of_versions(rollout, key, during, before, decide)
    else:
        found = decide(joined(before), joined(during), ())
    alpha = FIRST_LEVEL / (1 << rollout.looks)
    kept = tuple(f for f in found.findings if f.q <= alpha and f.kind != ChangeKind.WORKLOAD)
    worse = any(direction_of(finding.kind) == "worse" for finding in kept)
    return replace(found, findings=kept, code=CHANGED if worse else 0)


def _of_versions(
    rollout: Rollout, key: str, during: Sequence[Range], before: Sequence[Range], decide: Decide
) -> Decision:
    there = f"component = '{_quoted(rollout.component)}'"
    mine, others = (f"{there} and {key} {sign} '{_quoted(rollout.version)}'" for sign in ("=", "!="))
    found = decide(joined(during), joined(during), (), where=(others, mine))
    if found.code == UNSURE and not found.findings and before:
        found = decide(joined(before), joined(during), (), where=(there, mine))
    return found


def _quoted(text: str) -> str:
    return text.replace("'", "''")
