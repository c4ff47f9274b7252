"""Assign each event to its request: by request id or, without one, by the records to which it is linked.

Split and join records, and explicit ids and parents, link the breadcrumbs of events without a request id;
each connected component is one request.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8
from schemas.events import EventKind
from stitch.columnar.runs import coded_words, connected_components, group_stably, inverse, whole

COMPONENT_PREFIX = "~"
"""Prefix of the made-up request id of a component without request ids; its smallest breadcrumb (by code
point) follows."""

_NONE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class RequestCodes:
    """Request of each event in a batch. Codes are local to the batch; the request ids in `names` are not."""

    code: I8
    """[events] code of the event's request, an index into `names`."""
    names: pa.StringArray
    """[codes] request id of each code, distinct."""


def flat_list(column: pa.Array) -> tuple[I8, pa.Array]:
    """Flatten a list column: `(row, value)` of every item; null lists and null items are omitted."""
    values = pc.list_flatten(column)
    row = pc.list_parent_indices(column).to_numpy(zero_copy_only=False).astype(np.int64)
    if values.null_count:
        row, values = row[values.is_valid().to_numpy(zero_copy_only=False)], values.drop_null()
    return row, values


def assign_requests(events: pa.Table) -> RequestCodes:
    """Assign every event to a request; apart from the numbering of codes, the result does not depend on the
    order of rows.

    Events with neither breadcrumb nor id share the breadcrumb "". A component that also contains a
    breadcrumb, link, id or parent of events *with* a request id belongs to that request; if there are
    several, to the smallest. O(events), but twenty times slower for events without a request id.
    """
    encoded = coded_words(whole(events["request_id"]))
    names = encoded.dictionary
    code = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    loose = np.flatnonzero(code < 0)
    if not len(loose):
        return RequestCodes(code, names)
    words = _Words(events.take(pa.array(loose)))
    component = words.components()
    owner = words.owners(events, code, component, names)
    own_names = words.names(component)
    free = np.flatnonzero(owner < 0)
    free_names = own_names.take(pa.array(free))
    known = _codes(free_names, names)
    fresh = known < 0
    owner[free] = np.where(fresh, len(names) + np.cumsum(fresh) - 1, known)
    code[loose] = owner[component[words.of_row]]
    names = pa.concat_arrays([names, free_names.filter(pa.array(fresh))])
    return RequestCodes(code, names)


class _Words:
    """Breadcrumbs and ids of the events without a request id, as vertices of a graph: first the breadcrumbs,
    then the ids."""

    def __init__(self, loose: pa.Table) -> None:
        link_row, link = split_and_join_links(loose)
        parent_row, parent = flat_list(whole(loose["parents"]))
        crumb, identity = whole(loose["breadcrumb"]), whole(loose["id"])
        self.crumbs = pc.unique(pa.concat_arrays([crumb, link, pa.array([""])])).drop_null()
        self.ids = pc.unique(pa.concat_arrays([identity, parent])).drop_null()
        n_crumbs = len(self.crumbs)
        crumb_of, link_of = _codes(crumb, self.crumbs), _codes(link, self.crumbs)
        id_of = _shifted(_codes(identity, self.ids), n_crumbs)
        parent_of = _codes(parent, self.ids) + n_crumbs
        # The event's own vertex: its breadcrumb, else its id, else its first link, else its first parent.
        own = np.where(crumb_of >= 0, crumb_of, id_of)
        for row, vertex in ((link_row, link_of), (parent_row, parent_of)):
            fallback = np.full(len(own), -1, dtype=np.int64)
            fallback[row[::-1]] = vertex[::-1]
            own = np.where(own >= 0, own, fallback)
        self.of_row = np.where(own >= 0, own, _codes(pa.array([""]), self.crumbs)[0])
        both = np.flatnonzero((crumb_of >= 0) & (id_of >= 0))
        self.a = np.concatenate((self.of_row[link_row], self.of_row[parent_row], crumb_of[both]))
        self.b = np.concatenate((link_of, parent_of, id_of[both]))

    def components(self) -> I8:
        """[vertices] index of each vertex's connected component."""
        _, component = connected_components(self.a, self.b, len(self.crumbs) + len(self.ids))
        return component

    def owners(self, events: pa.Table, code: I8, component: I8, names: pa.StringArray) -> I8:
        """[components] code of the smallest request with a breadcrumb or id in the component; -1 if there is
        none. names: request id of each code."""
        n_crumbs = len(self.crumbs)
        link_row, link = split_and_join_links(events)
        parent_row, parent = flat_list(whole(events["parents"]))
        every = np.arange(len(code))
        vertex = np.concatenate(
            (
                _codes(whole(events["breadcrumb"]), self.crumbs),
                _codes(link, self.crumbs),
                _shifted(_codes(whole(events["id"]), self.ids), n_crumbs),
                _shifted(_codes(parent, self.ids), n_crumbs),
            )
        )
        request = code[np.concatenate((every, link_row, every, parent_row))]
        touch = (vertex >= 0) & (request >= 0)
        rank = _ranks(names)
        best = np.full(int(component.max(initial=-1)) + 1, _NONE)
        np.minimum.at(best, component[vertex[touch]], rank[request[touch]])
        by_rank = np.argsort(rank)
        found = best != _NONE
        owner = np.full(len(best), -1, dtype=np.int64)
        owner[found] = by_rank[best[found]]
        return owner

    def names(self, component: I8) -> pa.StringArray:
        """[components] made-up request id: COMPONENT_PREFIX and the smallest breadcrumb, or the smallest id
        if the component has no breadcrumb."""
        words = pa.concat_arrays([self.crumbs, self.ids.cast(pa.string())])
        # Ids rank behind all breadcrumbs.
        rank = np.concatenate((_ranks(self.crumbs), _ranks(self.ids) + len(self.crumbs)))
        order = np.argsort(rank)
        by_component, first = group_stably(component[order], int(component.max(initial=-1)) + 1)
        smallest = order[by_component[first[:-1]]]
        return pc.binary_join_element_wise(COMPONENT_PREFIX, words.take(pa.array(smallest)), "")


def split_and_join_links(events: pa.Table) -> tuple[I8, pa.StringArray]:
    """Links of all split and join records: ([links] row of the record, [links] breadcrumb that it names)."""
    row, link = flat_list(whole(events["links"]))
    kind = events["kind"].to_numpy()[row]
    keep = (kind == EventKind.SPLIT) | (kind == EventKind.JOIN)
    if keep.all():
        return row, link
    return row[keep], link.filter(pa.array(keep))


def _codes(words: pa.StringArray, known: pa.StringArray) -> I8:
    """[words] index of each word in `known`; -1 if it is not there."""
    found = pc.fill_null(pc.index_in(words, known, skip_nulls=True), -1)
    codes: I8 = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _shifted(codes: I8, by: int) -> I8:
    return np.where(codes >= 0, codes + by, -1)


def _ranks(words: pa.StringArray) -> I8:
    """[words] rank of each word in ascending order, from 0."""
    return inverse(pc.sort_indices(words).to_numpy())
