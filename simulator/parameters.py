"""Sizes and service times of the simulated service, per workload.

Tuned once against NSDI Table 1 and Figure 6 (docs/internals/simulator.md has the fit), then frozen: never
changed for the sake of a detection result. Means and C² are those of the papers unless noted there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from simulator.streams import Law, StreamSpec


@dataclass(frozen=True, slots=True)
class Parameters:
    """Sizes and service times that differ between installations and loads."""

    attr_entries: int
    """Capacity of the NFS server's attribute cache, entries."""
    data_blocks: int
    """Capacity of the NFS server's data cache, 16 KB blocks."""
    mds_entries: int
    """Capacity of the metadata server's metadata cache, entries."""
    mds_pages: int
    """Capacity of the metadata server's cache of B-tree pages, pages."""
    sn_blocks: int
    """Capacity of the data storage node's block cache, 16 KB blocks."""
    sn_meta_blocks: int
    """Capacity of the metadata storage node's block cache, 16 KB blocks."""
    directories: int
    lock_stripes: int
    """Number of locks of the metadata server; a directory hashes to one of them."""
    max_spins: int
    """Number of failed attempts, while the holder computes, after which a waiter for a lock sleeps."""
    checkpoint_gap_us: float
    """Mean time between checkpoints, each of which holds one lock, µs."""
    checkpoint_hold_us: float = 6_000.0
    """Mean time for which a checkpoint holds its lock, µs."""
    checkpoint_hold_c2: float = 4.0
    page_items: int = 24
    tree_levels: int = 3
    tree_pages: int = 1
    """Number of pages that an insert without splits writes."""
    lookup_pages: int = 2
    """Number of pages that a look-up visits if it misses the metadata cache."""
    remove_pages: int = 1
    setattr_pages: int = 1
    tree_items: int = 32_768
    """Number of items in the metadata tree: the range of keys, which decides how far apart new items fall."""
    fan_out_bits: int = 2
    """Base-2 logarithm of the fan-out: the number of child pages of a page."""
    dirty_blocks: int = 16
    """Number of unflushed blocks of the NFS server at which a WRITE starts a write-back."""
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
