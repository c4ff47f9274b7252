"""What tells a cluster from the other requests of its root type: a node that it has, or lacks."""

from __future__ import annotations

from typing import Final

import numpy as np

from analyze.methods.clusters.calling_tree import ROOT
from schemas.arrays import F8, I8

LEAST: Final = 0.3
"""A node marks a cluster where the shares of requests that pass it are so far apart."""


def cluster_marks(through: F8, requests: F8, cluster: int, rest: I8) -> tuple[int, int]:
    """(node that the cluster has and the rest lacks, node that it lacks), -1 for none.

    through: [nodes, clusters] requests that pass; requests: [clusters]; rest: the root type's other clusters.
    Of equally telling nodes the topmost: what follows a parting tells no more.
    """
    others = float(requests[rest].sum())
    if others <= 0 or requests[cluster] <= 0:
        return ROOT, ROOT
    apart = through[:, cluster] / requests[cluster] - through[:, rest].sum(axis=1) / others
    has, lacks = int(np.argmax(apart)), int(np.argmin(apart))
    return has if apart[has] >= LEAST else ROOT, lacks if apart[lacks] <= -LEAST else ROOT
