"""Size of the lake: bytes a span without parameters, beside the gzipped OTLP/JSON it came from.

Run: `python tests/bench/bench_lake.py [FOLDER_OF_OTLP_FILES]`. The synthetic set is that of `bench_kernel`.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

from bench.bench_kernel import span_batch

from schemas.config import StitchConfig
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings
from stitch.kernel import stitch
from stitch.lake.encoding import encode
from stitch.lake.layout import DEFAULT_WINDOW_NS
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore
from stitch.lake.windowing import cut


class Silent:
    """No progress."""

    def begin(self, total_bytes: int) -> None:
        """See Progress."""

    def decoded(self, file_bytes: int, events: int) -> None:
        """See Progress."""

    def stitched(self, flows: int) -> None:
        """See Progress."""


def imported(files: list[Path], settings: ImportSettings) -> tuple[int, int]:
    """Spans, and bytes of flows and structures, of a lake made from files."""
    with tempfile.TemporaryDirectory() as name:
        lake = Path(name)
        summary = import_into(
            lake,
            [str(file) for file in files],
            settings,
            owner="bench",
            created_by="bench",
            stdin=io.BytesIO(),
            progress=Silent(),
        )
        manifest = open_manifest(LocalStore.at(lake))
        size = sum(file.size for table in ("flows", "structures") for file in manifest.files(table))
    return summary.counters.events_read, size


def real(folder: Path) -> None:
    """Each file of real spans, and all of them."""
    files = sorted(folder.glob("*.otlp.jsonl.gz"))
    for chosen in [*([file] for file in files), files]:
        spans, size = imported(chosen, ImportSettings())
        gzipped = sum(file.stat().st_size for file in chosen)
        name = chosen[0].name if len(chosen) == 1 else "all"
        print(
            f"{name}: {spans:,} spans, {size / spans:.2f} bytes a span, "
            f"{size / gzipped:.1%} of the gzipped OTLP/JSON ({gzipped / spans:.1f} bytes a span)"
        )


def synthetic(n_spans: int) -> None:
    """The kernel's benchmark batch."""
    events = span_batch(n_spans)
    made = stitch(events, StitchConfig())
    begin = time.process_time()
    size = 0
    for part in cut(made.flows, made.structures, made.params, DEFAULT_WINDOW_NS):
        size += encode("flows", part.flows, part.window).size
        size += encode("structures", part.structures, part.window).size
    seconds = time.process_time() - begin
    print(
        f"synthetic: {events.num_rows:,} spans, {size / events.num_rows:.2f} bytes a span, "
        f"encoded at {events.num_rows / seconds:,.0f} spans/s CPU"
    )


if __name__ == "__main__":
    default = Path(__file__).resolve().parents[1] / "data" / "online-boutique"
    real(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
    synthetic(1_000_000)
