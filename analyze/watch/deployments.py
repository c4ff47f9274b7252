"""Deployments: repeated comparisons of a new version with the other versions in the same windows.

Comparisons (looks) are made after 1, 2, 4, 8 and 16 windows, at half the significance level, a quarter and so
on, so that together they spend the level of one comparison. If the versions do not overlap in time, the
windows since the deployment are compared with the windows before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from analyze.load import read_flow_files, read_params, read_stored_structures
from analyze.scope import LakePeriod
from analyze.watch.decide import UNSURE, Decide, Decision, Range, joined
from analyze.watch.incidents import RECENT_NS
from analyze.watch.slow_lane import certain
from analyze.watch.versions import Rollout, Running, Versions

MOST_VERSIONS: Final = 10_000
"""Maximum number of distinct values in a window that a version parameter may have; with more, it is
ignored.
"""


def versions_in(here: LakePeriod, key: str) -> frozenset[tuple[str, str]]:
    """(component, version) pairs that occur in a window: values of parameter `key` at nodes of a
    component.
    """
    params = read_params(here, keys=[key]).filter(pc.field("text") != "")
    if not params.num_rows:
        return frozenset()
    flows = [table for _, table in read_flow_files(here, ["request_id", "kind", "category", "start_ns"])]
    request = ["request_id", "kind"]
    flow = pa.concat_tables(flows).select([*request, "category"])
    plain = [pa.field(name, pa.string()) for name in flow.column_names]
    rows = params.select([*request, "position", "text"]).join(flow.cast(pa.schema(plain)), request)
    places = rows.group_by(["category", "position", "text"]).aggregate([]).to_pylist()
    wanted = pa.array([*{row["category"] for row in places}], pa.string())
    nodes = {
        row["category"]: row["nodes"]
        for path in here.structures
        for row in read_stored_structures(here, path, ["category", "nodes"], wanted).to_pylist()
    }
    named = ((nodes[row["category"]][row["position"]]["component"], row["text"]) for row in places)
    return frozenset((component, version) for component, version in named if component)


def noticed(state: Versions, here: LakePeriod, key: str, gone_windows: int) -> Versions:
    """Return the versions known after window `here`: a version that is new in its component, or comes back,
    starts a rollout.

    gone_windows: number of windows with the component but without the version after which the version is
    gone; a version unseen for four weeks is gone, too. A component's first version starts no rollout.
    """
    start = here.windows[0].start_ns
    found = versions_in(here, key) if key else frozenset()
    if len(found) > MOST_VERSIONS:
        found = frozenset()
    there = {component for component, _ in found}
    running = {
        (one.component, one.version): one.model_copy(update={"missed": one.missed + 1})
        if one.component in there
        else one
        for one in state.running
    } | {pair: Running(component=pair[0], version=pair[1], seen_ns=start) for pair in found}
    known = {(one.component, one.version) for one in state.running}
    components = {component for component, _ in known}
    new = [
        Rollout(component=component, version=version, start_ns=start)
        for component, version in sorted(found - known)
        if component in components
    ]
    running = {
        pair: one
        for pair, one in sorted(running.items())
        if one.missed < gone_windows and start - one.seen_ns < RECENT_NS
    }
    rollouts = [
        one.model_copy(update={"windows": one.windows + 1}) if is_there else one
        for one in (*state.rollouts, *new)
        for pair in [(one.component, one.version)]
        for is_there in [pair in found if one.component else start >= one.start_ns]
        if pair in running or not one.component
    ]
    return Versions(
        running=tuple(running.values()),
        rollouts=tuple(rollouts),
    )


def is_due(rollout: Rollout) -> bool:
    """True if the next comparison of a deployment is due: after 1, 2, 4 … windows."""
    return rollout.windows >= 1 << rollout.looks


def looked_at(
    rollout: Rollout, key: str, during: Sequence[Range], before: Sequence[Range], decide: Decide
) -> Decision:
    """Compare a deployed version once with the other versions in the same windows, else with the time before.

    A deployment marked by a person has no component: the windows after it are compared with those before. The
    decision holds only findings significant at the level of this look.
    """
    if rollout.component:
        found = _of_versions(rollout, key, during, before, decide)
    else:
        found = decide(joined(before), joined(during), ())
    return certain(found, found.q / (2 << rollout.looks))


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
