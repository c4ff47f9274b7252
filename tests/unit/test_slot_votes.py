"""Votes of a slot that lie in files, and whose places get new numbers."""

import sys
from pathlib import Path

import numpy as np
import pytest
from oracles import fork_server

from analyze.profile import slot_votes
from analyze.profile.slot_votes import OneSlotVotes, SlotVotes
from analyze.profile.votes import Votes, summed_votes

BINS = ((10, 11), (11,), (10, 12))
"""Of three places."""


def votes() -> Votes:
    n_rows = np.array([len(bins) for bins in BINS])
    places = np.arange(len(BINS))
    bins = np.concatenate([np.array(each) for each in BINS])
    return Votes((places * 0, places, places * 0, places * 0), n_rows, bins, (np.arange(len(bins)) + 1,))


def no_folder() -> Path:
    raise AssertionError("so few votes need no file")


def part() -> OneSlotVotes:
    return OneSlotVotes.of(votes().compact(), np.zeros(len(BINS), dtype=np.int64), no_folder)


@pytest.mark.parametrize("n_parts", [1, 2])
def test_places_that_get_one_number_keep_all_votes(n_parts: int) -> None:
    """Bins 10, 11 with 1 and 2, bin 11 with 3, bins 10, 12 with 4 and 5; all of one place in the end."""
    kept = SlotVotes(tuple(part() for _ in range(n_parts)))
    one_place = kept.renumbered(np.zeros(len(BINS), dtype=np.int64), np.zeros(1, dtype=np.int64))
    table = one_place.table()
    assert table["bin"].to_pylist() == [10, 11, 12]
    assert table["n"].to_pylist() == [5 * n_parts, 5 * n_parts, 5 * n_parts]
    two = kept.renumbered(np.array([0, 1, 1]), np.zeros(1, dtype=np.int64)).table()
    assert [*zip(*(two[name].to_pylist() for name in ("site", "bin", "n")), strict=True)] == [
        *((0, 10, n_parts), (0, 11, 2 * n_parts)),
        *((1, 10, 4 * n_parts), (1, 11, 3 * n_parts), (1, 12, 5 * n_parts)),
    ]


@pytest.mark.parametrize("n_parts", [1, 2])
def test_runs_that_get_one_key_add_up_beyond_four_bytes(n_parts: int) -> None:
    """A part holds a key twice once its sites got one number."""
    site = np.zeros(2, dtype=np.int64)
    large = np.full(2, 2_200_000_000, dtype=np.uint32)
    one = np.ones(2, dtype=np.uint16)
    part = Votes((site,) * 4, one, one, (one, one, large))
    summed = summed_votes([part] * n_parts)
    assert [column.tolist() for column in summed.sums] == [
        [2 * n_parts],
        [2 * n_parts],
        [4_400_000_000 * n_parts],
    ]


def test_votes_in_a_file_are_as_small_as_those_in_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those of a single window come in order of their sites, not of the shards."""
    monkeypatch.setattr(slot_votes, "MOST_HELD", 0)
    small = votes().compact()
    filed = OneSlotVotes.of(small, np.array([1, 0, 1]), lambda: tmp_path).read()
    assert [key.dtype for key in filed.keys] == [key.dtype for key in small.keys]
    assert [column.dtype for column in (filed.n_rows, filed.bin, *filed.sums)] == [
        column.dtype for column in (small.n_rows, small.bin, *small.sums)
    ]
    assert filed.keys[1].tolist() == [1, 0, 2]
    assert filed.sums[0].tolist() == [3, 1, 2, 4, 5]


FULL = """
import errno, resource, sys, tempfile
import numpy as np
from pathlib import Path
from analyze.profile import slot_votes
from analyze.profile.votes import Votes
from stitch.scratch import Scratch

tempfile.tempdir, n = sys.argv[1], int(sys.argv[2])
slot_votes.MOST_HELD = 0
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
key = np.zeros(1, dtype=np.int64)
many = Votes((key,) * 4, np.array([n]), np.arange(n), (np.ones(n),))
scratch = Scratch()
try:
    slot_votes.OneSlotVotes.of(many, key, lambda: scratch.folder)
except OSError as error:
    assert error.errno == errno.EFBIG, error
    assert error.filename == str(scratch.folder), error
    assert scratch.folder.parent == Path(sys.argv[1])
    print(error.strerror)
"""
"""A process whose files may not be longer than 4,000 bytes."""


@pytest.mark.parametrize("n", [1500, 100_000])
def test_a_full_disk_is_an_error_that_names_the_folder(tmp_path: Path, n: int) -> None:
    """A tail that fits into the buffer of a file is lost no more than what is written at once."""
    done = fork_server.run(
        [sys.executable, "-c", FULL, str(tmp_path), str(n)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "File too large\n", "")
