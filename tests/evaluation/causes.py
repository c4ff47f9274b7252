"""Which finding names the injected cause of a simulated case: the truth in terms of sites.

A finding names a cause where its leading site is one at which the cause acted, and what happened there is of
the kind that the cause brings about. Sites are told by whole labels: `host/component/operation` of the site,
and of who calls it (records: where the step begins).

* Time: the simulator notes the steps on which a cause's code acted (`EdgeTruth`). The site must end at one of
  them, as records tell it or as spans do, and be slower (or have a new tail).
* Structure: the trace points that the cause adds, drops or reorders, by name (below). The site, its caller or
  what is said to have changed must have one of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from evaluation.edges import EdgeMatcher

from schemas.report.findings import ChangeKind, Finding
from simulator.faults import FaultMechanism

TIME = frozenset({ChangeKind.SLOWER, ChangeKind.TAIL})
STRUCTURE = frozenset(
    {
        ChangeKind.PATH,
        ChangeKind.NEW_PATH,
        ChangeKind.LOST_PATH,
        ChangeKind.MORE_CALLS,
        ChangeKind.FEWER_CALLS,
        ChangeKind.SERIAL,
    }
)
ERRORS = frozenset({ChangeKind.ERRORS})


@dataclass(frozen=True, slots=True)
class Signs:
    """How a mechanism shows beside the steps that it makes slower."""

    kinds: frozenset[ChangeKind] = frozenset()
    places: str = "(?!)"
    """Regular expression, searched in the labels of the site and its caller, and in what changed there."""
    slow_places: str = "(?!)"
    """The same for time: where the cause acts without a step of its own."""


STORAGE_WRITE = r"SN_WRITE|sn/WRITE_CALL|sn/SN\.WRITE|storage\.WRITE|sn/STORAGE_NODE_RPC_REPLY"
STORAGE_READ = r"SN_READ|sn/READ_CALL|sn/SN\.READ|storage\.READ"

SIGNS: dict[str, Signs] = {
    # The commit of an update waits for the data node's disk; pages are written there.
    FaultMechanism.MDS_CONFIG.name: Signs(STRUCTURE, STORAGE_WRITE, r"sn-data/sn/(LOG_WRITE|SN\.WRITE)"),
    FaultMechanism.SMALL_IO.name: Signs(STRUCTURE, rf"BLOCK_MODIFY|DATA_CACHE|{STORAGE_READ}"),
    FaultMechanism.PREFETCH.name: Signs(STRUCTURE, r"LOCK_(ACQUIRE|RELEASE)|LOCK_RETRY"),
    FaultMechanism.TREE_GROWTH.name: Signs(
        STRUCTURE, rf"PAGE_(UN)?LATCH|BTREE_PAGE|TXN_BEGIN|TXN_COMMIT|{STORAGE_WRITE}|MDS\.CREATE"
    ),
    FaultMechanism.READDIR_LOOP.name: Signs(STRUCTURE, r"DIR_ENTRY"),
    FaultMechanism.NOISY_HOST.name: Signs(slow_places=r"^sn-data/"),
    FaultMechanism.ERROR_BURST.name: Signs(
        STRUCTURE | ERRORS, rf"SN_RETRY|{STORAGE_READ}|{STORAGE_WRITE}|sn/STORAGE_NODE_RPC_REPLY"
    ),
    FaultMechanism.SEQUENTIAL_READ.name: Signs(STRUCTURE, rf"READ_(FORK|JOIN)|{STORAGE_READ}"),
}
"""By name of the mechanism; those that are not here make steps slower, and nothing else."""

NO_SIGNS = Signs()


@dataclass(frozen=True, slots=True)
class CauseSite:
    """One injected cause, as a finding may name it."""

    name: str
    signs: Signs
    at: EdgeMatcher
    """Knows the edges on which it acted."""
    ends: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", self.at.ends())

    def named_by(self, finding: Finding) -> bool:
        """Whether the finding names this cause."""
        site = finding.site
        here = site.text
        if finding.kind in TIME:
            return here in self.ends or re.search(self.signs.slow_places, here) is not None
        if finding.kind not in self.signs.kinds:
            return False
        caller = "" if site.caller is None else site.caller.text
        what = " ".join(evidence.what for evidence in finding.evidence[:1])
        return any(re.search(self.signs.places, text) for text in (here, caller, what))


def cause_sites(mechanisms: Sequence[tuple[str, EdgeMatcher]]) -> tuple[CauseSite, ...]:
    """Causes from (mechanism's name, its edges)."""
    return tuple(CauseSite(name, SIGNS.get(name.upper(), NO_SIGNS), edges) for name, edges in mechanisms)
