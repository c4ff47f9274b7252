"""Keep the parameters of a share of the requests, the same ones in every run."""

from __future__ import annotations

import pyarrow as pa

from schemas.arrays import B1
from stitch.columnar.runs import whole
from stitch.drivers.partition import hash_texts, share_of


def keeps_params(flows: pa.Table, share: float) -> B1:
    """[flows] whether each is of the share of requests that keep their parameters."""
    return share_of(hash_texts(whole(flows["request_id"])), share)


def shared_params(params: pa.Table, share: float) -> pa.Table:
    """Parameters of the share of requests that keep theirs."""
    if share >= 1 or params.num_rows == 0:
        return params
    words = params["request_id"].combine_chunks().dictionary_encode()
    keep = share_of(hash_texts(words.dictionary), share)
    return params.filter(pa.array(keep[words.indices.to_numpy()]))
