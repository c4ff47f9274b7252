"""Count what every driver counts of flows before they are written: quality, the share of parameters."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from schemas.arrays import B1
from schemas.quality import Quality
from stitch.columnar.runs import whole
from stitch.drivers.partition import hash_texts, share_of


def count_flags(flows: pa.Table) -> Counter[str]:
    """Flows by quality flag, flags that occur only."""
    quality = flows["quality"].to_numpy()
    counts: Counter[str] = Counter()
    for flag in Quality:
        if count := int(np.count_nonzero(quality & flag)):
            counts[flag.name or str(flag.value)] = count
    return counts


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
