"""Make the comparisons that queries request by `compare(...)` and `breakdown(...)` in SQL.

The analysis is imported with the first comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from schemas.errors import ConfigError, PeriodError

if TYPE_CHECKING:
    import pyarrow as pa

    from analyze.methods.port import AnyMethod
    from analyze.sql.asked_comparison import AskedComparison, Comparing

SPINNER: Final = "Comparing"


@dataclass(frozen=True, slots=True)
class QueryComparisons:
    """Runs the comparisons that queries request, of periods of one lake; periods of other lakes are
    refused."""

    lake: str
    now_ns: int
    """Time to which relative periods (`yesterday`) refer, ns since the epoch."""

    def __call__(self, asked: AskedComparison) -> Mapping[str, pa.Table]:
        """Run a comparison; return its tables by name. Raises PeriodError, ConfigError, LakeError."""
        from analyze.methods.port import Chosen
        from analyze.refine.settings import RefineSettings
        from flowdiff.analysing import analysed
        from flowdiff.samples import asked_samples, find_samples

        texts = [asked.reference, asked.problem, *([asked.history] if asked.history is not None else [])]
        if named := next((text for text in texts if "@" in text), None):
            raise PeriodError(f"'{named}' names a lake.", remedy="A query compares periods of its own lake.")
        method = with_findings(asked.method)
        filters = (("reference", asked.reference_where), ("problem", asked.problem_where))
        samples = find_samples(
            asked_samples([asked.reference], [asked.problem], ()),
            texts[2:],
            now_ns=self.now_ns,
            lake=self.lake,
            where=asked.where,
            own_where={name: text for name, text in filters if text is not None},
        )
        return analysed(samples, [Chosen(method, method.settings())], RefineSettings(), "auto").tables


def with_findings(name: str) -> AnyMethod:
    """Method with this name, which must make findings. Raises ConfigError if it makes none."""
    from analyze.methods.registry import method_of
    from flowdiff.extras import needed

    with needed():
        method = method_of(name)
    if not any(view.tag == "findings" for view in method.sections):
        raise ConfigError(
            f"The method '{method.name}' gives no findings to query.",
            remedy=f"Take 'robust', or run: flowdiff compare --method {method.name}.",
        )
    return method


def with_spinner(comparing: Comparing) -> Comparing:
    """Wrap a comparing function so that a spinner is shown on a terminal while a comparison runs."""

    def shown(asked: AskedComparison) -> Mapping[str, pa.Table]:
        from flowdiff.cli.progress import stage

        with stage(SPINNER):
            return comparing(asked)

    return shown
