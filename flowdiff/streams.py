"""Standard output and error of the process."""

from __future__ import annotations

import io
import sys

from schemas.errors import FlowdiffError


def tolerate_any_text() -> None:
    """Print `?` for what the encoding of standard output cannot show (µ, arrows), rather than fail."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def print_error(error: FlowdiffError) -> None:
    """One line on standard error; what names in it would do to a terminal is shown and not done."""
    # Not at the top: it brings the report model, which commands that do not fail need not wait for.
    from analyze.report.wording import visible

    print(visible(f"flowdiff: {error}"), file=sys.stderr)
