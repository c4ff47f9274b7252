"""Hold what a run leaves behind: the sampled requests as columns, and their structures, each once.

A raw structure is what the service wrote while it ran. Decoded, it has strands with splits and joins, a
signature that ignores how they interleaved, and plain facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from ingest.simulate import points as p
from ingest.simulate.flow import CHILD_SHIFT, CODE_MASK, COUNT_MASK, COUNT_SHIFT
from schemas.arrays import F8, I8

STRAND_BREAK = -1
"""In a raw structure: the next strand's steps follow."""

RawStructure = tuple[int, ...]
"""Steps of strand 0, STRAND_BREAK, steps of strand 1, … (see `flow.COUNT_SHIFT` for a step)."""


@dataclass(frozen=True, slots=True)
class Touches:
    """What faults did, one row a touch: [touches] columns."""

    request: I8
    """Row in the trace."""
    cause: I8
    step: I8
    """Position in the request's flat list of steps."""
    added_ns: F8
    """Work the fault added on the edge into this step; 0 where it acts in another way."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The sampled requests of one shard, in order of completion."""

    shard: int
    uid: I8
    structure: I8
    """[requests] index into `structures`."""
    first_step: I8
    """[requests + 1] offsets into `time_ns`."""
    time_ns: I8
    """[steps] since the start of the run; the order of steps is that of the raw structure."""
    response_ns: I8
    op: I8
    file: I8
    offset: I8
    count: I8
    client: I8
    structures: tuple[RawStructure, ...]
    touches: Touches
    n_simulated: int
    end_ns: float
    """Time of the last completion, since the start of the run."""

    def __len__(self) -> int:
        return len(self.uid)


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its code, the strands it starts or merges, its position in the flat list of steps."""

    code: int
    strands: tuple[int, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Structure:
    """A decoded raw structure. `strands[0]` begins with the call and ends with the reply."""

    strands: tuple[tuple[Step, ...], ...]
    joined: frozenset[int]
    """Strands that the response waits for; the others, but for 0, are deferred."""

    @property
    def n_steps(self) -> int:
        """Number of nodes."""
        return sum(len(strand) for strand in self.strands)

    def awaited(self) -> list[tuple[Step, ...]]:
        """The strands that are not deferred."""
        return [steps for i, steps in enumerate(self.strands) if i == 0 or i in self.joined]


def decode(raw: RawStructure) -> Structure:
    """Take a raw structure apart."""
    strands: list[list[Step]] = [[]]
    joined: set[int] = set()
    position = 0
    for item in raw:
        if item == STRAND_BREAK:
            strands.append([])
            continue
        code, n, first = item & CODE_MASK, item >> COUNT_SHIFT & COUNT_MASK, item >> CHILD_SHIFT
        named = tuple(range(first, first + n))
        if p.POINTS[code].kind == "join":
            joined.update(named)
        strands[-1].append(Step(code, named, position))
        position += 1
    return Structure(tuple(tuple(s) for s in strands), frozenset(joined))


def node_text(code: int, with_host: bool) -> str:
    """The label of a node, as the papers write it: machine, component, trace point, semantic label."""
    point = p.POINTS[code]
    where = f"{point.host}/{point.component}" if with_host else point.component
    return f"{where}/{point.name}/{point.label}" if point.label else f"{where}/{point.name}"


def signature(structure: Structure, with_host: bool) -> str:
    """16 hex digits, equal for flows that did the same in whatever order parallel strands interleaved.

    With hosts this is the papers' category (a node's label includes its machine); without, it is what the
    stitch kernel sees.
    """

    def text(strand: int) -> str:
        parts = []
        for step in structure.strands[strand]:
            word = node_text(step.code, with_host)
            if step.strands and p.POINTS[step.code].kind == "split":
                word += "{" + "|".join(sorted(text(child) for child in step.strands)) + "}"
            parts.append(word)
        return " ".join(parts)

    return blake2b(text(0).encode(), digest_size=8).hexdigest()


FACTS = (
    "metadata_writes_on_data_node",
    "metadata_writes_on_metadata_node",
    "partial_modifies",
    "lock_pairs",
    "lock_retries",
    "mds_calls",
    "tree_iterations",
    "storage_writes",
    "storage_retries",
    "directory_entries",
    "parallel_branches",
    "serial_reads",
)
"""Counts of what the strands that the response waits for did: the inputs of the relevance rules (I.2)."""

_MDS_CALLS = frozenset(p.MDS_CALL.values())
_ENTRIES = frozenset((p.ENTRY, p.ENTRY_HIT, p.ENTRY_MISS))
_WRITES = frozenset((p.META_NODE.write, p.DATA_NODE.write))
_PAGES = frozenset((p.TREE_NODE, p.TREE_NODE_MISS))
_RETRIES = frozenset((p.NFS_CALLER.retry, p.MDS_CALLER.retry))


def facts(structure: Structure) -> dict[str, int]:
    """Count what the request did, from the simulator's own record. Keys: FACTS."""
    count = dict.fromkeys(FACTS, 0)
    for strand, steps in enumerate(structure.strands):
        if strand and strand not in structure.joined:
            continue
        codes = [s.code for s in steps]
        for before, code in zip([-1, *codes], codes, strict=False):
            if before == p.MDS_CALLER.write_call:
                count["metadata_writes_on_data_node"] += code == p.DATA_NODE.write
                count["metadata_writes_on_metadata_node"] += code == p.META_NODE.write
            count["partial_modifies"] += code == p.MODIFY_PART
            count["lock_pairs"] += code == p.LOCK_ACQUIRE
            count["lock_retries"] += code == p.LOCK_RETRY
            count["mds_calls"] += code in _MDS_CALLS
            count["tree_iterations"] += code in _PAGES
            count["storage_writes"] += code in _WRITES
            count["storage_retries"] += code in _RETRIES
            count["directory_entries"] += code in _ENTRIES
            count["serial_reads"] += strand == 0 and code == p.NFS_CALLER.read_call
        count["parallel_branches"] += sum(len(s.strands) for s in steps if p.POINTS[s.code].kind == "join")
    return count
