"""4 MB of input that names millions of things stays below MEMORY_MB, and every refusal is counted.

Memory grows with the input: an input of a sixteenth of that must stay below a sixteenth of the bound.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from oracles.bombs import BOMBS, READ_ONE_BY_ONE, SIZE

MEMORY_MB = 64 + 150
"""The smallest budget that an import takes, and what it may hold beside it, of 8 MB twice as much."""

SCRIPT = """
import ctypes, json, re, sys
sys.path[:0] = sys.argv[2:]
import pyarrow as pa
from ingest.formats import codec_for
from oracles.bombs import BOMBS
from schemas.config import DecodeConfig

def status(name):
    text = open("/proc/self/status").read()
    return int(re.search(name + r":\\s+(\\d+)", text)[1]) / 1024

def rest():
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew

pa.set_memory_pool(pa.system_memory_pool())  # as the import does
codec, config = codec_for(sys.argv[1]), DecodeConfig()
out = {}
for name, (format_, make) in BOMBS.items():
    if format_ == sys.argv[1]:
        bomb = make()
        codec.decode([bomb[: 2**15]], config)  # what is loaded and kept at the first of its kind
        rest()
        idle = status("VmRSS") - len(bomb) / 2**20
        decoded = codec.decode([bomb], config)
        peak = status("VmHWM") - idle
        out[name] = {"mb": peak, "bytes": len(bomb), "events": len(decoded.events), **decoded.refused}
        del bomb, decoded
print(json.dumps(out))
"""

MANY = 2_096_652
"""Fields of two bytes in a bomb."""
EXPECTED = {
    "spans": {"events": 0, "missing-field": MANY},
    "spans of a byte": {"events": 0, "missing-field": MANY // 2},
    "spans and ones": {"events": 0, "missing-field": MANY // 65536 * 65536, "bad-protobuf": 1},
    "ids only": {"events": 139_776},
    "attributes": {"events": 0, "too-large": 1},
    "events": {"events": 0, "too-large": 1},
    "links": {"events": 0, "too-large": 1},
    "pairs": {"events": 0, "too-large": 1},
    "tags": {"events": 0, "too-large": 1},
    "json spans": {"events": 0, "too-large": 1},
    "zipkin spans": {"events": 0, "too-large": 1},
    "zipkin messages": {"events": 0, "missing-field": (READ_ONE_BY_ONE - 1_000) // 2},
    "zipkin tags": {"events": 0, "too-large": 1},
    "zipkin message annotations": {"events": 0, "too-large": 1},
    "native records": {"events": 0, "too-large": 1},
}
"""What becomes of some."""


@pytest.mark.parametrize("format_", sorted({format_ for format_, _ in BOMBS.values()}))
def test_a_bomb_takes_little_memory(format_: str, repository: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, format_, str(repository), str(repository / "tests")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    peaks = {name: one.pop("mb") * max(1, SIZE // one.pop("bytes")) for name, one in found.items()}
    assert max(peaks.values()) < MEMORY_MB, peaks
    for name, expected in EXPECTED.items():
        if BOMBS[name][0] == format_:
            assert found[name] == expected, name
