"""Label policy for hosts (A.2): which components carry their host, or its role, in their labels.

A category is split by hosts exactly where the policy puts them into labels. `auto` means: roles where a role
map is given; else no hosts for spans (pods and instances are replicas, renamed by every deployment); else
the host name for components of activity records with 2 to `max_full_hosts` hosts, unless both periods have
hosts of their own, which is a renaming rather than a move of work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.refine.equal_rows import equal_rows
from analyze.refine.settings import RefineSettings
from analyze.refine.stored import FlowMatrices, StoredCategory

I8 = npt.NDArray[np.int64]
I4 = npt.NDArray[np.int32]
B1 = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HostLabels:
    """What the policy decided."""

    labelled: frozenset[str]
    """Components whose nodes carry a host part."""
    words: tuple[str, ...]
    """Host parts; index 0 is the empty part of unknown hosts."""
    word_of: I4
    """[hosts + 1] host code -> index into `words`; the last entry stands for unknown (-1)."""
    notes: tuple[str, ...]


def decide_host_labels(flows: FlowMatrices, settings: RefineSettings) -> HostLabels:
    """Apply `settings.host_policy` to the hosts that both periods show. O(nodes) for `auto`."""
    components = frozenset(c for category in flows.categories for c in category.structure.component)
    policy = settings.host_policy
    if policy == "auto" and settings.host_roles:
        policy = "role"
    if policy == "none":
        return HostLabels(frozenset(), ("",), np.zeros(len(flows.hosts) + 1, dtype=np.int32), ())
    if policy == "role":
        return _by_role(flows.hosts, components, settings)
    words = ("", *flows.hosts)
    word_of = np.array([*range(1, len(words)), 0], dtype=np.int32)
    if policy == "full":
        return HostLabels(components, words, word_of, ())
    labelled, notes = _auto_components(flows, settings.max_full_hosts)
    return HostLabels(labelled, words, word_of, notes)


def _by_role(hosts: tuple[str, ...], components: frozenset[str], settings: RefineSettings) -> HostLabels:
    patterns = [(re.compile(pattern), role) for pattern, role in settings.host_roles]
    roles = [next((role for pattern, role in patterns if pattern.fullmatch(host)), "") for host in hosts]
    words = ("", *sorted(set(roles) - {""}))
    word_of = np.array([*(words.index(role) for role in roles), 0], dtype=np.int32)
    unmatched = [host for host, role in zip(hosts, roles, strict=True) if not role]
    notes: tuple[str, ...] = ()
    if unmatched:
        notes = (
            f"{len(unmatched)} hosts match no role, for example {unmatched[0]}: no host in their labels.",
        )
    return HostLabels(components, words, word_of, notes)


def _auto_components(flows: FlowMatrices, max_hosts: int) -> tuple[frozenset[str], tuple[str, ...]]:
    seen: dict[str, B1] = {}
    for category in flows.categories:
        if category.structure.has_spans:
            continue
        for component, columns in _columns_by_component(category).items():
            marks = seen.setdefault(component, np.zeros((2, len(flows.hosts) + 1), dtype=np.bool_))
            problem_from = int(np.searchsorted(category.period, 1))
            hosts = category.host[:, columns]
            marks[0][hosts[:problem_from]] = True
            marks[1][hosts[problem_from:]] = True
    labelled = []
    notes = []
    for component, marks in sorted(seen.items()):
        reference, problem = marks[0, :-1], marks[1, :-1]
        n_hosts = int((reference | problem).sum())
        if not 2 <= n_hosts <= max_hosts:
            continue
        only_0, only_1 = reference & ~problem, problem & ~reference
        if only_0.any() and only_1.any():
            gone = flows.hosts[int(np.flatnonzero(only_0)[0])]
            new = flows.hosts[int(np.flatnonzero(only_1)[0])]
            notes.append(
                f"Hosts of {component} differ between the periods (for example {gone}, then {new}): "
                "taken as renamed, so its labels carry no host."
            )
        else:
            labelled.append(component)
    return frozenset(labelled), tuple(notes)


def _columns_by_component(category: StoredCategory) -> dict[str, list[int]]:
    columns: dict[str, list[int]] = {}
    for position, component in enumerate(category.structure.component):
        columns.setdefault(component, []).append(position)
    return columns


def split_by_hosts(category: StoredCategory, labels: HostLabels) -> Iterator[tuple[I8, tuple[str, ...]]]:
    """Cut a category into groups of rows whose nodes have the same host parts.

    Yields (rows ascending, host part of each node, empty where there is none).
    """
    rows = np.arange(category.n_requests, dtype=np.int64)
    components = category.structure.component
    columns = [at for at, component in enumerate(components) if component in labels.labelled]
    if not columns:
        yield rows, ("",) * len(components)
        return
    codes = labels.word_of[category.host[:, columns]]
    first, group = equal_rows(codes)
    for number, row in enumerate(first):
        parts = [""] * len(components)
        for column, code in zip(columns, codes[row], strict=True):
            parts[column] = labels.words[code]
        yield rows[group == number], tuple(parts)
