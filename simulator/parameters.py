"""Sizes and service times of the simulated service, per workload.

Tuned once against NSDI Table 1 and Figure 6 (docs/internals/simulator.md has the fit), then frozen: never
changed for the sake of a detection result. Means and C² are those of the papers unless noted there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from simulator.streams import Law, StreamSpec


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters that differ between installations and loads."""

    attr_entries: int
    """NFS server: attribute cache, entries."""
    data_blocks: int
    """NFS server: data cache, 16 KB blocks."""
    mds_entries: int
    """Metadata server: metadata cache, entries."""
    mds_pages: int
    """Metadata server: cache of B-tree pages."""
    sn_blocks: int
    """Data storage node: block cache, 16 KB blocks."""
    sn_meta_blocks: int
    """Metadata storage node: block cache, 16 KB blocks."""
    directories: int
    lock_stripes: int
    """Metadata server: number of locks; a directory hashes to one."""
    max_spins: int
    """Failed attempts while the holder computes, after which a waiter sleeps."""
    checkpoint_gap_us: float
    """Mean time between checkpoints, each of which holds one lock."""
    checkpoint_hold_us: float = 6_000.0
    checkpoint_hold_c2: float = 4.0
    page_items: int = 24
    tree_levels: int = 3
    tree_pages: int = 1
    """Pages written by an insert without splits."""
    lookup_pages: int = 2
    """Pages visited by a look-up that misses the metadata cache."""
    remove_pages: int = 1
    setattr_pages: int = 1
    tree_items: int = 32_768
    """Items in the metadata tree, i.e. the range of keys, which decides how far apart new items fall."""
    fan_out_bits: int = 2
    """log2 of the fan-out, pages per page."""
    dirty_blocks: int = 16
    """NFS server: unflushed blocks at which a WRITE starts a write-back."""
    ack_law: Law = Law.EXPONENTIAL
    ack_us: float = 100.0
    ack_c2: float = 1.0
    run_sd: float = 0.03
    minute_sd: float = 0.05
    minute_rho: float = 0.6


STATIONS = ("nfs", "mds", "meta", "data", "net")


def stream_specs(p: Parameters) -> list[StreamSpec]:
    """Specs of all sources of randomness of the service. Append only: a stream's number keys its draws."""
    specs = [
        StreamSpec("nfs_cpu", "nfs", 35, 0.15),
        StreamSpec("decode", "nfs", 15, 0.15),
        StreamSpec("handle", "nfs", 10, 0.15),
        StreamSpec("attr_hit", "nfs", 5, 0.15),
        StreamSpec("block_hit", "nfs", 25, 0.3),
        StreamSpec("entry", "nfs", 20, 0.15),
        StreamSpec("nfs_reply", "nfs", 15, 0.15),
        StreamSpec("modify", "nfs", 30, 0.3),
        StreamSpec("mds_cpu", "mds", 280, 0.2),
        StreamSpec("mds_work", "mds", 40, 0.2),
        StreamSpec("mds_reply", "mds", 20, 0.2),
        StreamSpec("lock_op", "mds", 15, 0.2),
        StreamSpec("latch", "mds", 5, 0.2),
        StreamSpec("lock_spin", "mds", 80, law=Law.EXPONENTIAL),
        StreamSpec("tree_work", "mds", 500, 0.3),
        StreamSpec("prefetch_item", "mds", 60, 0.3),
        StreamSpec("net", "net", 60, 0.3),
        StreamSpec("retry_backoff", "nfs", 2_000, 0.15),
        StreamSpec("checkpoint_gap", "", p.checkpoint_gap_us, law=Law.EXPONENTIAL),
        StreamSpec("checkpoint_hold", "mds", p.checkpoint_hold_us, p.checkpoint_hold_c2),
    ]
    for node in ("meta", "data"):
        specs += [
            StreamSpec(f"{node}_dispatch", node, 20, 0.15),
            StreamSpec(f"{node}_hit", node, 380, 0.35),
            StreamSpec(f"{node}_miss", node, 60, 0.3),
            StreamSpec(f"{node}_disk", node, 7_500, 0.4),
            StreamSpec(f"{node}_destage", node, 12_000, 0.3),
            StreamSpec(f"{node}_log", node, 320, 0.4),
            StreamSpec(f"{node}_ack", node, p.ack_us, p.ack_c2, p.ack_law),
        ]
    decisions = ("storage", "absorb", "checkpoint", "config", "prefetch", "stale")
    # Mean 1 ns: a uniform stream's draw is the number itself.
    specs += [StreamSpec(f"u_{name}", "", 1e-3, law=Law.UNIFORM) for name in decisions]
    return specs


def broad(p: Parameters) -> Parameters:
    """Copy of the parameters whose acknowledgement latency varies widely, for the fault `F5-spin-broad`."""
    return replace(p, ack_law=Law.NORMAL, ack_us=500.0, ack_c2=0.36)
