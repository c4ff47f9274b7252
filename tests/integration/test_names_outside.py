"""Names that somebody wrote into a lake: none of them reads, writes or removes a file outside of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from oracles.bucket_server import BucketServer

from schemas.errors import LakeError
from stitch.lake.place import open_place
from stitch.lake.store import LocalStore, Move

NAMES = ("../outside", "flows/../../outside", "a/..", "/tmp/outside")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "do",
    [
        lambda store, name: store.read(name),
        lambda store, name: store.read_end(name, 1),
        lambda store, name: store.remove(name),
        lambda store, name: store.put(name, b"x"),
        lambda store, name: store.names(name),
        lambda store, name: store.publish([Move("stage/there", name)]),
        lambda store, name: store.publish([Move(name, "flows/taken")]),
    ],
)
def test_a_folder_does_nothing_with_a_name_that_leads_out_of_it(
    do: Callable[[LocalStore, str], object], name: str, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (tmp_path / "lake" / "stage").mkdir(parents=True)
    (tmp_path / "lake" / "stage" / "there").touch()
    with pytest.raises(LakeError, match="lies outside of it"):
        do(LocalStore.at(tmp_path / "lake"), name)
    assert outside.read_text() == "mine"


def test_names_with_dots_are_names(tmp_path: Path) -> None:
    store = LocalStore.at(tmp_path)
    store.put("reports/a..b/..c", b"x")
    assert store.size("reports/a..b/..c") == 1


@pytest.mark.parametrize("kept", [False, True])
def test_a_copy_of_a_bucket_is_put_below_its_folder_only(
    kept: bool, bucket_server: BucketServer, bucket_environ: dict[str, str], tmp_path: Path
) -> None:
    """A content that the cache has needs no answer of the bucket to be given a name."""
    place = open_place(bucket_server.new_lake())
    assert place.copies is not None
    content = b"a line for somebody's profile"
    sha256 = hashlib.sha256(content).hexdigest()
    place.store.put_if_absent("flows/x", content, "stage")
    if kept:
        place.copies.fetch([("flows/x", sha256)])
    outside = place.root.parent / "outside"
    outside.write_text("mine")
    with pytest.raises(LakeError, match="lies outside of it"):
        place.copies.fetch([("../outside", sha256)])
    assert outside.read_text() == "mine"
