"""Walk of a command: files, functions and lines that it enters, and how often each stage is entered.

`python tests/bench/walk.py compare --lake LAKE …` runs `flowdiff compare …` in this process under
`sys.setprofile`, on all threads, with whatever flowdiff the interpreter has: that of another checkout's
`.venv` for a comparison. Counted are functions of the product, not modules and class bodies, and lines of
theirs and of their files.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

PACKAGES: Final = ("schemas", "ingest", "stitch", "analyze", "simulator", "flowdiff")
STAGES: Final = {
    "loading": "read_samples",
    "sums": "profile_of",
    "tests": "tested_of",
    "causes": "causes_of",
    "sections": "analyse",
    "rendering": "render_html",
}
"""Function of each stage of a comparison."""


def calls_of(run: Callable[[], object]) -> Counter[CodeType]:
    """Calls by code while `run` runs, on all threads of this process; SystemExit ends it."""
    calls: Counter[CodeType] = Counter()

    def entered(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    before = sys.getprofile()
    threading.setprofile(entered)
    sys.setprofile(entered)
    try:
        run()
    finally:
        sys.setprofile(before)
        threading.setprofile(before)
    return calls


def of_the_product(calls: Counter[CodeType]) -> Counter[CodeType]:
    """Functions of the product among some calls."""
    import flowdiff

    root = Path(flowdiff.__file__).resolve().parents[1]
    return Counter(
        {
            one: n
            for one, n in calls.items()
            if one.co_filename.startswith(str(root))
            and Path(one.co_filename).relative_to(root).parts[0] in PACKAGES
            and not one.co_name.startswith("<")
            and one.co_flags & CO_NEWLOCALS  # no module, no class body
        }
    )


def stages(calls: Counter[CodeType]) -> dict[str, int]:
    """Entries into each stage of a comparison."""
    by_name: Counter[str] = Counter()
    for one, n in calls.items():
        by_name[one.co_name] += n
    return {stage: by_name[name] for stage, name in STAGES.items()}


def main() -> None:
    """Print what a command entered."""
    from flowdiff.__main__ import main as flowdiff_main

    ended: list[object] = []

    def run() -> None:
        try:
            flowdiff_main(sys.argv[1:])
        except SystemExit as code:
            ended.append(code.code)

    ours = of_the_product(calls_of(run))
    lines: Counter[str] = Counter()
    for one in ours:
        last = max((line for _, _, line in one.co_lines() if line is not None), default=one.co_firstlineno)
        lines[one.co_filename] += last - one.co_firstlineno + 1
    whole = sum(Path(file).read_bytes().count(b"\n") for file in lines)
    print(
        f"exit {ended}: {len(lines)} files of {whole:,} lines; {len(ours)} functions of "
        f"{lines.total():,} lines; {stages(ours)}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
