"""Decide which components have a host name, or the host's role, in the labels of their nodes.

A category is split by exactly the hosts that the policy puts into labels. `auto` means: roles if a role map
is given; otherwise no hosts for spans (pods and instances are replicas, renamed by every deployment), and the
host name for components of activity records with 2 to `max_full_hosts` hosts. The host name is left out if
the reference and another sample each have hosts that the other lacks: the hosts were renamed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyze.refine.settings import RefineSettings
from analyze.refine.stored import FlowMatrices, equal_rows
from schemas.arrays import B1, I4, I8
from stitch.columnar.runs import no_rows


@dataclass(frozen=True, slots=True)
class HostLabels:
    """Host names or roles to include in node labels, as decided by `RefineSettings.host_policy`."""

    labelled: frozenset[str]
    """Components whose node labels include a host name or a role."""
    words: tuple[str, ...]
    """Host names or roles that may stand in labels; index 0 is the empty string, for unknown hosts."""
    word_of: I4
    """int32[hosts + 1]: index into `words` for each host code; the last entry is for unknown hosts (-1)."""
    notes: tuple[str, ...]


def decide_host_labels(flows: FlowMatrices, settings: RefineSettings, samples: Sequence[str]) -> HostLabels:
    """Decide by `settings.host_policy` which labels include hosts. O(nodes) for `auto`.

    samples: names of the compared samples, which are the first in `flows`; only these are searched for
    renamed hosts.
    """
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
    labelled, notes = _auto_components(flows, settings.max_full_hosts, samples)
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


def _auto_components(
    flows: FlowMatrices, max_hosts: int, samples: Sequence[str]
) -> tuple[frozenset[str], tuple[str, ...]]:
    records = [category for category in flows.categories if not category.has_spans]
    components = sorted({component for category in records for component in category.structure.component})
    number = {component: at for at, component in enumerate(components)}
    seen = np.zeros((len(components), flows.n_samples, len(flows.hosts) + 1), dtype=np.bool_)
    for category in records:
        node = np.array([number[component] for component in category.structure.component])
        seen[node[:, None], category.sample, category.host] = True
    labelled = []
    notes = []
    for component, known in zip(components, seen[:, :, :-1], strict=True):
        if not 2 <= int(known.any(axis=0).sum()) <= max_hosts:
            continue
        renamed = _renamed(known[: len(samples)])
        if renamed is None:
            labelled.append(component)
            continue
        other, gone, new = renamed
        notes.append(
            f"Hosts of {component} differ between the {samples[0]} and the {samples[other]} (for example "
            f"{flows.hosts[gone]}, then {flows.hosts[new]}): taken as renamed, so its labels carry no host."
        )
    return frozenset(labelled), tuple(notes)


def _renamed(known: B1) -> tuple[int, int, int] | None:
    """(index of a sample, a host only in sample 0, a host only in that sample); None if not renamed.

    known: bool[samples, hosts], True if the component ran on the host in the sample. Sample 0 is the
    reference: a component was renamed if the reference and another sample each have hosts that the other
    lacks. Samples after the reference are not compared with each other: small samples lack hosts by chance.
    """
    first = known[0]
    for number, other in enumerate(known[1:], start=1):
        only_first, only_other = first & ~other, other & ~first
        if only_first.any() and only_other.any():
            return number, int(np.flatnonzero(only_first)[0]), int(np.flatnonzero(only_other)[0])
    return None


def split_by_hosts(flows: FlowMatrices, labels: HostLabels) -> tuple[FlowMatrices, I8]:
    """Split categories, so that the requests of each have the same host or role at every labelled node.

    Returns (flows; int64[nodes of all categories] index into `labels.words`, 0 if the label has no host).
    """
    categories, words = [], [no_rows()]
    for category in flows.categories:
        is_labelled = [component in labels.labelled for component in category.structure.component]
        codes = labels.word_of[category.host[is_labelled]]
        first, group = equal_rows(codes)
        for number, row in enumerate(first.tolist()):
            own = np.zeros(len(is_labelled), dtype=np.int64)
            own[is_labelled] = codes[:, row]
            words.append(own)
            part = category if len(first) == 1 else category.of_rows(np.flatnonzero(group == number))
            categories.append(part)
    return replace(flows, categories=tuple(categories)), np.concatenate(words)
