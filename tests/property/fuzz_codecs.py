"""Fuzz the codecs with fresh seeds: `fuzz_codecs.py [--seconds S | --inputs N] [--seed S]`.

What fails is made small and printed, with its seed: `--seed` tries it again. Once a minute it says how far
it is. Memory may not grow, and nothing may be written to the standard error (by a panic of a parser, say).
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import os
import resource
import secrets
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests")]

from oracles.fuzz_rounds import Rounds  # noqa: E402 (the path comes first: a script)

from ingest.formats import format_names  # noqa: E402

ROUND = 4_000
"""Inputs of a format in a round, about; a round has its own seed."""
SHARES = {"xtrace": 0.25, "jaeger-ui": 0.25}
"""Files that nobody sends as messages, of many spans each, have fewer inputs."""
MEMORY_MB = 400
"""May be taken over what was taken after the first round."""


def main(seconds: float, inputs: int, seed: int) -> int:
    """Rounds until the time is over, or so many inputs were tried; the exit code."""
    begin = told = time.monotonic()
    rounds = [Rounds(format_, REPOSITORY / "tests" / "data") for format_ in format_names()]
    tried: Counter[str] = Counter()
    refused, escaped, at_first_mb = 0, 0, 0.0
    with tempfile.TemporaryFile("ab+") as errors:
        for number in itertools.count(seed):
            for one in rounds:
                n = int(ROUND * SHARES.get(one.format, 1))
                for batch in one.batches(number, n):
                    found = _checked(one, batch, f"--seed {number} --seconds 0", errors.fileno())
                    refused, escaped = refused + (found or 0), escaped + (found is None)
                    tried[one.format] += len(batch)
            at_first_mb = at_first_mb or _most_mb()
            assert _most_mb() - at_first_mb < MEMORY_MB, f"memory: {at_first_mb:.0f} to {_most_mb():.0f} MB"
            now, total = time.monotonic(), tried.total()
            is_over = total >= inputs if inputs else now >= begin + seconds
            if is_over or now > told + 60:
                told = now
                print(
                    f"{total:,} inputs, {refused:,} items refused, seeds {seed} to {number}, "
                    f"{escaped or 'none'} escaped; "
                    f"{total / time.process_time():,.0f} a CPU second, {_most_mb():.0f} MB",
                    flush=True,
                )
            if is_over:
                print(", ".join(f"{format_} {count:,}" for format_, count in tried.items()))
                return 1 if escaped else 0
    return 1


def _checked(one: Rounds, batch: list[bytes], how: str, errors: int) -> int | None:
    """The number of items refused; None where something fails, which is made small and printed."""
    try:
        return _quiet(one, batch, errors)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 (a panic of a parser is no Exception)
        print(f"{one.format}: {how}\n{traceback.format_exc()}the inputs that it takes:")
        print("\n".join(payload.hex() for payload in _smallest(one, batch, errors)), flush=True)
        return None


def _quiet(one: Rounds, batch: list[bytes], errors: int) -> int:
    """Check a batch; nothing may be written to the standard error meanwhile, even by what is not Python."""
    standard = os.dup(2)
    os.ftruncate(errors, 0)
    os.dup2(errors, 2)
    try:
        refused = one.check(batch)
    finally:
        os.dup2(standard, 2)
        os.close(standard)
    written = os.pread(errors, 2_000, 0)
    assert not written, written
    return refused


def _smallest(one: Rounds, batch: list[bytes], errors: int) -> list[bytes]:
    """Fewer inputs of a failing batch that fail together still."""
    size = len(batch) // 2
    while size:
        begin = 0
        while begin < len(batch):
            fewer = batch[:begin] + batch[begin + size :]
            try:
                _quiet(one, fewer, errors)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # noqa: BLE001
                batch = fewer
            else:
                begin += size
        size //= 2
    return batch


def _most_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    faulthandler.enable(os.fdopen(os.dup(2), "w"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--inputs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    arguments = parser.parse_args()
    sys.exit(main(arguments.seconds, arguments.inputs, arguments.seed))
