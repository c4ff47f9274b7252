"""Set what decides in an explanation, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_DEFAULT_IGNORED: Final = (
    r"thread",
    r"timestamp|(^|[._-])(time|ts)$",
    r"(trace|span|request|correlation|transaction|message)[._-]?id",
    r"(^|[._-])(port|pid|pointer|ptr|nonce|etag)$",
    r"^address$|(?<!server)[._-]address$",
    r"process[._-]pid",
)
"""Parameters whose values are not expected to be alike in two requests (NSDI §5.5): regular expressions,
looked for anywhere in the name, without regard to case."""
IDENTIFIER_NAMES: Final = (
    r"version|build|revision|commit|git|sha\b|config.*hash|hash.*config|deploy|release|image|generation"
)
"""A number under such a name is an identifier, not a quantity."""


@dataclass(frozen=True, slots=True)
class ExplainSettings:
    """How much is read, how a tree is grown, and what it must show to be believed."""

    most_requests: int = 2_500
    """Of a class; more are sampled. What 2,500 against 2,500 do not show at an AUC of 0.65 is not there."""
    least_requests: int = 8
    """Of a class; with fewer nothing is said."""
    most_columns: int = 120
    """Of a table. Wider tables lose those with most missing values, which looks at no label."""
    blocks: int = 20
    """Time blocks within which labels are permuted."""
    folds: int = 5
    perms: int = 99
    fold_perms: int = 19
    """At the nodes of cross-validation trees: 1/20 is the least p, the gate is 0.05."""
    bootstraps: int = 20
    gate: float = 0.05
    depth: int = 4
    least_leaf: int = 5
    least_leaf_share: float = 0.02
    min_auc: float = 0.65
    min_stability: float = 0.6
    numeric_bins: int = 64
    """Of about 1.6 % of the requests each: finer than the smallest leaf."""
    levels: int = 20
    """Levels of a text column that are kept by name; the rest is `other`."""
    presence: float = 0.95
    """A node's parameters are compared where at least this share of both classes passes the node."""
    known: float = 0.9
    """Share of the requests of a period that pass a node whose value must be known for an identifier."""
    few_values: int = 10
    """A text column with fewer different values may take part in any case,"""
    alike: float = 0.5
    """one of more where it has so many at most, a request that has any: else they are ids."""
    ranked: int = 20
    """Different numbers from which their correlation with time is asked for,"""
    with_time: float = 0.95
    """and from this rank correlation on they are a clock, a counter, a sequence number."""
    most_background: int = 1_000
    """Requests beside the classes' own by which identifiers of a period are known."""
    most_changes: int = 20
    """Columns of how a number changes from node to node."""
    tie: float = 0.01
    """Excess gains that differ by this share are equal: of columns that say the same the first is taken."""
    same_split: float = 0.8
    """Correlation of two splits' answers from which they count as the same explanation."""
    twin: float = 0.98
    """Correlation of two columns' answers from which they say the same."""
    as_usual: float = 0.5
    """A root that parts the usual requests of the reference this well, beside how it parts the affected, says
    what it would say on any day."""
    new: float = 0.2
    """A root that parts problem from reference by this share says something new all the same."""
    most_standing: int = 3
    """Trees that may turn out to say what is so on every day, before there is no explanation."""
    as_good: float = 0.05
    """By so much AUC may a contrast inside the period be worse and still be the one to show: it controls for
    everything that merely changed with time."""
    most_attributes: int = 10
    """Rows of the attribute table that are kept."""
    ignored: tuple[str, ...] = _DEFAULT_IGNORED
    seed: int = 0


SETTINGS: Final = ExplainSettings()
"""Those of every explanation."""
