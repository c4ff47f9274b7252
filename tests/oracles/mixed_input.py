"""Files of all that an import may meet, and what a lake holds of them."""

from __future__ import annotations

import json
from pathlib import Path

from oracles.traffic import START_NS, native_lines, write_otlp

NS_PER_YEAR = 365 * 86_400 * 10**9


def tree(lake: Path) -> dict[str, bytes]:
    """Files of the lake, but for its commits: they say who made them."""
    return {
        path.relative_to(lake).as_posix(): path.read_bytes()
        for path in lake.rglob("*")
        if path.is_file() and "control" not in path.parts
    }


def mixed(folder: Path) -> list[Path]:
    """Spans and records; requests in two files; records without a request id, linked across files; garbage
    and broken archives; a clock ten years ahead."""
    folder.mkdir()
    spans, records = folder / "spans.pb", folder / "records.ndjson"
    write_otlp(spans, 30)
    lines = list(native_lines(180, seconds=1500))
    records.write_text("\n".join(lines[: len(lines) // 2]) + "\nno record\n")
    rest = folder / "rest.ndjson"
    rest.write_text("\n".join(lines[len(lines) // 2 :]) + '\n{"ts": "late"}\n')
    loose = [
        {"breadcrumb": f"b{number}", "ts": START_NS + number, "component": "web", "point": f"p{number % 3}"}
        for number in range(40)
    ]
    for number in range(0, 40, 2):
        loose[number] |= {"kind": "split", "links": [f"b{number + 1}"]}
    for part in (0, 1):
        text = "\n".join(json.dumps(record) for record in loose[part::2])
        (folder / f"loose-{part}.ndjson").write_text(text)
    ahead = folder / "ahead.ndjson"
    record = {"request_id": "r", "breadcrumb": "r", "component": "a", "point": "b"}
    times = [START_NS + k for k in range(20)] + [START_NS + 10 * NS_PER_YEAR]
    ahead.write_text("\n".join(json.dumps({**record, "ts": ts, "request_id": f"r{ts}"}) for ts in times))
    (folder / "broken.gz").write_bytes(b"\x1f\x8b" + bytes(40))
    (folder / "odd.txt").write_text("hello\n")
    return sorted(folder.iterdir())
