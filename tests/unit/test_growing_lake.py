"""The reader of chaos runs: what it must notice, and what it must not mind."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from chaos.reading import GrowingLake
from oracles.live_process import World, requests

from stitch.lake.chain import Listing
from stitch.lake.manifest import Manifest, open_manifest


@pytest.fixture(scope="module")
def whole() -> Manifest:
    """A lake of several files of flows."""
    world = World(requests(24, partitions=2, spread_s=250))
    world.start("process")
    for _ in world.turns("process"):
        pass
    world.processes["process"].stop()
    manifest = open_manifest(world.store)
    assert len(manifest.files("flows")) >= 4
    return manifest


def shown(whole: Manifest, *names: str) -> Manifest:
    """The lake with some files of flows only."""
    all_names = whole.listed.whole(whole.listing)["name"]
    return replace(
        whole, listing=whole.listing.filter(pc.is_in(all_names, value_set=pa.array(names, pa.string())))
    )


def flows(whole: Manifest) -> list[str]:
    return [file.name for file in whole.files("flows")]


def look(*lakes: Manifest, all_every: int = 1_000) -> GrowingLake:
    """Read them one after the other."""
    coming = iter(lakes)
    lake = GrowingLake(lambda: next(coming), all_every)
    for _ in lakes:
        lake.read()
    return lake


@pytest.mark.parametrize("all_every", [1, 1_000])
def test_a_lake_that_grows_is_sound(whole: Manifest, all_every: int) -> None:
    names = flows(whole)
    lake = look(*(shown(whole, *names[:n]) for n in range(len(names) + 1)), whole, all_every=all_every)
    assert (lake.vanished, lake.doubled, lake.trouble) == (0, 0, [])
    assert lake.n_requests == 24


def test_a_file_that_goes_takes_its_requests_along(whole: Manifest) -> None:
    names = flows(whole)
    gone = next(file.rows for file in whole.files("flows") if file.name == names[0])
    assert look(whole, shown(whole, *names[1:])).vanished == gone
    assert look(whole, shown(whole, *names[1:]), whole).vanished == gone


def with_copy(whole: Manifest, of: str) -> str:
    """The name of a file with the same rows as another, written and listed beside it."""
    name = of.replace(".parquet", "-again.parquet")
    if whole.store.size(name) is None:
        whole.store.put(name, whole.store.read(of))
    return name


def listing_with(whole: Manifest, of: str, name: str) -> Manifest:
    all_files = whole.listed.whole(whole.listing)
    row = all_files.filter(pc.equal(all_files["name"], of))
    place = row.schema.get_field_index("name")
    listed = Listing([all_files, row.set_column(place, row.schema.field(place), pa.array([name]))])
    return replace(whole, listing=listed.table, listed=listed)


def test_a_file_that_is_replaced_by_one_with_the_same_requests_is_fine(whole: Manifest) -> None:
    names = flows(whole)
    copied = with_copy(whole, names[0])
    renamed = shown(listing_with(whole, names[0], copied), *names[1:], copied)
    lake = look(whole, renamed, all_every=1)
    assert (lake.vanished, lake.doubled, lake.trouble) == (0, 0, [])


def test_requests_that_are_there_twice_are_counted(whole: Manifest) -> None:
    names = flows(whole)
    doubled = listing_with(whole, names[0], with_copy(whole, names[0]))
    rows = next(file.rows for file in whole.files("flows") if file.name == names[0])
    assert look(whole, doubled).doubled == rows
    assert look(doubled).doubled == rows


def test_a_file_that_reads_otherwise_than_before_is_noticed(
    whole: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = GrowingLake(lambda: whole, all_every=3)
    lake.read()
    first, second, *_ = whole.files("flows")
    read = Manifest.read
    monkeypatch.setattr(Manifest, "read", lambda self, file: read(self, second if file == first else file))
    lake.read()
    assert lake.trouble == []
    lake.read()
    assert lake.trouble
