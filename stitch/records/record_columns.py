"""Read the records of a batch as numpy columns: requests, breadcrumbs and ids as small integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8, U1, U8
from stitch.columnar.chunks import whole
from stitch.graph.labels import LabelCodes, encode_labels
from stitch.records.components import assign_requests, flat_list, split_and_join_links

NO_CODE = -1
"""Code of a null breadcrumb or id."""


@dataclass(frozen=True, slots=True)
class RecordReferences:
    """Words that records name: links or parents, one row a word, in the order of records."""

    record: I8
    """[references] record that names."""
    code: I8
    """[references] code of the word, in the coding of breadcrumbs or ids."""


@dataclass(frozen=True, slots=True)
class Records:
    """Columns [records], in the order of the event batch; codes are local to the batch."""

    events: pa.Table
    """The event batch."""
    flow: I8
    """Code of the request."""
    request_names: pa.StringArray
    """[request codes] request ids."""
    kind: U1
    ts_ns: I8
    seq: I8
    """0 where null."""
    has_seq: B1 | None
    """Where `seq` is set; null: everywhere."""
    crumb: I8
    """Breadcrumb, or NO_CODE."""
    n_crumbs: int
    links: RecordReferences
    """Links of split and join records."""
    identity: I8 | None
    """Explicit id, or NO_CODE; null: no record has one."""
    n_ids: int
    parents: RecordReferences
    """Explicit parents."""
    label: U8
    """Hash of component, point, label and kind."""

    def host_codes(self, records: I8) -> I8:
        """Hosts of some records as codes; nulls have one code."""
        hosts = whole(self.events["host"]).take(pa.array(records))
        codes: I8 = pc.fill_null(hosts.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return codes


def read_records(events: pa.Table, labels: LabelCodes | None) -> Records:
    """Columns of a batch of records with times (one chunk a column). O(records)."""
    requests = assign_requests(events)
    if labels is None:
        labels = encode_labels(events)
    link_record, link = split_and_join_links(events)
    crumb, link_code, n_crumbs = _encode(whole(events["breadcrumb"]), link)
    parent_record, parent = flat_list(whole(events["parents"]))
    has_ids = events["id"].null_count < events.num_rows or len(parent) > 0
    identity, parent_code, n_ids = (
        _encode(whole(events["id"]), parent) if has_ids else (None, np.zeros(0, np.int64), 0)
    )
    seq = whole(events["seq"])
    return Records(
        events=events,
        flow=requests.code,
        request_names=requests.names,
        kind=events["kind"].to_numpy(),
        ts_ns=events["ts_ns"].to_numpy(),
        seq=pc.fill_null(seq, 0).to_numpy(zero_copy_only=False),
        has_seq=seq.is_valid().to_numpy(zero_copy_only=False) if seq.null_count else None,
        crumb=crumb,
        n_crumbs=n_crumbs,
        links=RecordReferences(link_record, link_code),
        identity=identity,
        n_ids=n_ids,
        parents=RecordReferences(parent_record, parent_code),
        label=labels.hashes[labels.code],
    )


def _encode(words: pa.StringArray, named: pa.StringArray) -> tuple[I8, I8, int]:
    """Codes of a column and of the words that name its values, in one coding: `(words, named, codes)`."""
    together = pa.concat_arrays([words, named]) if len(named) else words
    encoded = together.dictionary_encode()
    indices = pc.fill_null(encoded.indices, NO_CODE) if encoded.null_count else encoded.indices
    codes = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes[: len(words)], codes[len(words) :], len(encoded.dictionary)
