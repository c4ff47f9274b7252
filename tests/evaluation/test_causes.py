"""Which findings count as naming the injected cause."""

from __future__ import annotations

import pytest
from evaluation.causes import cause_sites
from evaluation.edges import EdgeMatcher
from evaluation.truth import EdgeTruth

from schemas.report.findings import ChangeKind, Evidence, Finding, Interval, Site
from schemas.report.parts import NodeName
from simulator.faults import FaultMechanism

pytestmark = pytest.mark.evaluation

NOTHING = Interval(low=0.0, high=0.0)


def finding(kind: ChangeKind, component: str, operation: str, caller: str = "", what: str = "") -> Finding:
    calling = None if not caller else NodeName(component=caller.split("/")[0], point=caller.split("/")[1])
    site = Site(component=component, operation=operation, caller=calling)
    evidence = Evidence(
        kind=kind,
        site=site,
        what=what,
        unit="us",
        before=1.0,
        after=2.0,
        change=NOTHING,
        requests0=9,
        requests1=9,
        p=0.0,
        q=0.0,
        z=9.0,
        contribution_us=1.0,
    )
    return Finding(
        rank=1,
        kind=kind,
        site=site,
        title="",
        unit="us",
        before=1.0,
        after=2.0,
        change=NOTHING,
        share_of_change=None,
        contribution_us=1.0,
        affected0=0,
        affected1=9,
        share0=0.0,
        share1=1.0,
        p=0.0,
        q=0.0,
        evidence=(evidence,),
        evidence_total=1,
        chain=(),
        factors=(),
        examples=(),
        members=(),
        members_total=0,
        histogram=None,
        account=None,
        explanation=None,
        first_window_ns=None,
    )


def edge(src: str, dst: str) -> EdgeTruth:
    return EdgeTruth(src=src, dst=dst, touches=5, added_ns_mean=1.0)


def spin() -> EdgeMatcher:
    return EdgeMatcher([edge("sn-data/sn/LOG_WRITE", "sn-data/sn/STORAGE_NODE_RPC_REPLY")])


@pytest.mark.parametrize(
    ("kind", "component", "operation", "right"),
    [
        (ChangeKind.SLOWER, "sn-data/sn", "STORAGE_NODE_RPC_REPLY", True),
        (ChangeKind.TAIL, "sn-data/sn", "STORAGE_NODE_RPC_REPLY", True),
        (ChangeKind.SLOWER, "sn-data/sn", "SN.WRITE", True),  # told as spans, the step is its own time
        (ChangeKind.FASTER, "sn-data/sn", "STORAGE_NODE_RPC_REPLY", False),
        (ChangeKind.PATH, "sn-data/sn", "STORAGE_NODE_RPC_REPLY", False),
        (ChangeKind.SLOWER, "sn-meta/sn", "STORAGE_NODE_RPC_REPLY", False),
        (ChangeKind.SLOWER, "nfs-a/nfs", "SN_WRITE_REPLY", False),  # who waits for it
    ],
)
def test_a_spin_is_named_at_the_step_that_it_delays(
    kind: ChangeKind, component: str, operation: str, right: bool
) -> None:
    (cause,) = cause_sites([(FaultMechanism.SPIN.name, spin())])
    assert cause.named_by(finding(kind, component, operation)) is right


@pytest.mark.parametrize(
    ("mechanism", "found", "right"),
    [
        (FaultMechanism.MDS_CONFIG, finding(ChangeKind.PATH, "mds-a/mds", "SN_WRITE_CALL"), True),
        (FaultMechanism.MDS_CONFIG, finding(ChangeKind.SLOWER, "sn-data/sn", "LOG_WRITE"), True),
        (FaultMechanism.MDS_CONFIG, finding(ChangeKind.SLOWER, "sn-meta/sn", "LOG_WRITE"), False),
        (FaultMechanism.MDS_CONFIG, finding(ChangeKind.PATH, "nfs-a/nfs", "ATTR_CACHE/MISS"), False),
        (
            FaultMechanism.SMALL_IO,
            finding(ChangeKind.NEW_PATH, "nfs-a/nfs", "ATTR_CACHE/HIT", what="nfs-a/nfs/BLOCK_MODIFY/PART"),
            True,
        ),
        (FaultMechanism.PREFETCH, finding(ChangeKind.MORE_CALLS, "mds-a/mds", "LOCK_ACQUIRE"), True),
        (FaultMechanism.PREFETCH, finding(ChangeKind.MORE_CALLS, "mds-a/mds", "DISPATCH"), False),
        (
            FaultMechanism.PREFETCH,
            finding(ChangeKind.PATH, "mds-a/mds", "x", caller="mds/LOCK_RELEASE"),
            True,
        ),
        (FaultMechanism.NOISY_HOST, finding(ChangeKind.SLOWER, "sn-data/sn", "DISK_READ"), True),
        (FaultMechanism.NOISY_HOST, finding(ChangeKind.SLOWER, "sn-meta/sn", "DISK_READ"), False),
        (
            FaultMechanism.ERROR_BURST,
            finding(ChangeKind.ERRORS, "sn-data/sn", "STORAGE_NODE_RPC_REPLY"),
            True,
        ),
        (FaultMechanism.PAUSES, finding(ChangeKind.MORE_CALLS, "nfs-a/nfs", "GETATTR_CALL"), False),
    ],
)
def test_structure_is_named_at_the_points_that_the_cause_adds(
    mechanism: FaultMechanism, found: Finding, right: bool
) -> None:
    (cause,) = cause_sites([(mechanism.name.lower(), EdgeMatcher([]))])
    assert cause.named_by(found) is right
