"""Rounds of garbage for one codec, the same for the same number: continuous integration tries a few of them,
`fuzz_codecs.py` as many as there is time for.

Of a round most inputs are small and near real messages, in bytes or in values; those of protobuf are also
made from the schema. A few are near whole payloads of many spans, and one is huge.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from oracles.codec_contract import SOUND_EVERY, check_batch, sound_payloads
from oracles.hostile_payloads import (
    MESSAGES,
    NASTY,
    hostile_messages,
    more_seeds,
    seed_payloads,
    small_payload,
)
from oracles.mutants import enlarged, mutants, reshaped, restructured

from ingest.formats import codec_for

BATCHES: Final = (30, 300, 1_000, 1_500)
"""Sizes of batches: a codec has ways of its own for few, for many, and for groups of a megabyte."""
_MADE: Final = 40
"""One input in so many is made from a schema, which takes a millisecond; its mutants do not."""
_HUGE: Final = (50_000, 50_000, 200_000, 200_000, 1_500_000)
"""Bytes."""


class Rounds:
    """The garbage of one format, and its sound payloads."""

    def __init__(self, format_: str, shared_data: Path) -> None:
        self.format = format_
        self.codec = codec_for(format_)
        whole = seed_payloads(shared_data)[format_]
        small = small_payload(format_, whole)
        others = more_seeds(shared_data, format_)
        self._near = [small, *(small_payload(format_, other) for other in others)]
        self._whole = [whole, *others]
        rng = random.Random(format_)
        n_sound = max(BATCHES) // SOUND_EVERY + 1
        self.sound = [
            *sound_payloads(self.codec, whole, rng, 1),
            *sound_payloads(self.codec, small, rng, n_sound - 1),
        ]

    def inputs(self, number: int, n: int) -> list[bytes]:
        """About `n` inputs of the round, in any order."""
        rng = random.Random(number)
        out = [
            *NASTY,
            *self._changed(rng, self._near, n * 9 // 10),
            *self._changed(rng, self._whole, n // 20),
        ]
        huge = enlarged(rng.choice(self._whole), rng, rng.choice(_HUGE))
        out += [huge, *mutants(huge, rng, 1)]
        rng.shuffle(out)
        return out

    def batches(self, number: int, n: int) -> Iterator[list[bytes]]:
        """The inputs of a round in batches of several sizes."""
        inputs, sizes = self.inputs(number, n), random.Random(number)
        done = 0
        while done < len(inputs):
            size = sizes.choice(BATCHES)
            yield inputs[done : done + size]
            done += size

    def check(self, batch: list[bytes]) -> int:
        """See `check_batch`."""
        return check_batch(self.format, self.codec, self.sound, batch)

    def _changed(self, rng: random.Random, seeds: list[bytes], n: int) -> Iterator[bytes]:
        """`n` inputs near some payloads: half of them changed in bytes, half as their format allows."""
        is_json = self.format not in {*MESSAGES, "parquet"}  # types of columns: test_table_columns.py
        share = n if self.format == "parquet" else n // 2
        for seed in seeds:
            yield from mutants(seed, rng, share // len(seeds))
            if is_json:
                yield from reshaped(seed, rng, n // 4 // len(seeds))
                yield from restructured(seed, rng, n // 4 // len(seeds))
        if self.format in MESSAGES:
            for message in hostile_messages(self.format, rng.getrandbits(32), n // _MADE):
                yield message
                yield from mutants(message, rng, _MADE // 2 - 1)
