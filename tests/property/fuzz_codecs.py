"""Fuzz the codecs with fresh seeds: `python tests/property/fuzz_codecs.py [--seconds N] [--seed S]`.

What fails is printed with its seed and the payloads of its batch, and can be run again with `--seed`.
"""

from __future__ import annotations

import argparse
import itertools
import random
import secrets
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests")]

from oracles.hostile_payloads import (  # noqa: E402 (the path comes first: a script)
    BATCH,
    check_batch,
    hostile_messages,
    more_seeds,
    mutants,
    seed_payloads,
)

from ingest.formats import codec_for, format_names  # noqa: E402

ROUND = 10 * BATCH
"""Inputs of a format in a round, about; a round has its own seed."""


def main(seconds: float, seed: int) -> int:
    """Rounds until the time is over; the exit code."""
    shared = REPOSITORY.parent / "shared" / "data"
    seeds = seed_payloads(shared)
    end, n_inputs = time.monotonic() + seconds, 0
    for number in itertools.count(seed):
        for format_ in format_names():
            inputs: list[bytes] = []
            for seed_ in (seeds[format_], *more_seeds(shared, format_)):
                inputs += mutants(seed_, random.Random(number), ROUND)
            inputs += hostile_messages(format_, number, ROUND)
            for start in range(0, len(inputs), BATCH):
                batch = inputs[start : start + BATCH]
                try:
                    check_batch(codec_for(format_), seeds[format_], batch)
                except BaseException:
                    print(f"{format_}: --seed {number} --seconds 0, inputs {start} to {start + len(batch)}")
                    print("\n".join(payload.hex() for payload in batch))
                    raise
            n_inputs += len(inputs)
        if time.monotonic() >= end:
            print(f"{n_inputs:,} inputs, seeds {seed} to {number}: none escaped")
            return 0
    return 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    arguments = parser.parse_args()
    sys.exit(main(arguments.seconds, arguments.seed))
