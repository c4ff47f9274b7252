"""The spool: durable in order, cut off anywhere, given up and gone on from, removed once the lake has it."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.receiver.receiver import Receiver
from ingest.receiver.receiver_settings import ReceiverSettings
from ingest.receiver.spool import PendingFullError, Spool, SpoolFullError
from ingest.receiver.spool_source import SpoolSource
from ingest.source import CutBackError, GapError, Payloads, Place, StreamId, TopicChangedError
from schemas.config import DecodeConfig
from schemas.errors import BusyLakeError, ConfigError, InputError

SETTINGS = ReceiverSettings(sync_interval_ns=0, least_free_bytes=0, segment_bytes=2**16)
STREAM = StreamId("otlp-proto", 0)


def filled(folder: Path, messages: list[bytes], settings: ReceiverSettings = SETTINGS) -> None:
    """Append messages to a spool, one after the other, and close it."""
    spool = Spool(folder, settings)
    for message in messages:
        spool.append(STREAM.topic, message).result(10)
    spool.close()


def read_all(folder: Path, place: Place | None = None) -> list[tuple[int, bytes]]:
    """(Position, message) of all that a spool holds from a place on."""
    spool = Spool(folder, SETTINGS)
    source = SpoolSource(spool, 0, DecodeConfig())
    try:
        found: list[tuple[int, bytes]] = []
        if not source.change().gained:
            return found
        source.start(STREAM, place)
        while (payloads := source.poll(0.0)) is not None:
            found += zip(payloads.positions, payloads.payloads, strict=True)
        return found
    finally:
        spool.close()


def messages_of(seed: int, n: int) -> list[bytes]:
    """Messages of random sizes; protobuf's first byte, so that none passes for a packed one."""
    rng = random.Random(seed)
    return [b"\x0a" + rng.randbytes(rng.choice((0, 10, 1_000, 30_000))) for _ in range(n)]


def settled(folder: Path, holds: Callable[[list[Path]], bool]) -> bool:
    """True once the files of the stream are as wanted: the spool's thread removes them."""
    deadline = time.monotonic() + 10
    while (
        not (fits := holds(sorted((folder / STREAM.topic).glob("*.spool")))) and time.monotonic() < deadline
    ):
        time.sleep(0.01)
    return fits


@pytest.mark.parametrize("seed", range(4))
def test_what_is_durable_is_read_after_a_cut_anywhere(tmp_path: Path, seed: int) -> None:
    messages, rng = messages_of(seed, 60), random.Random(seed)
    filled(tmp_path / "whole", messages[:40])
    # What a power cut leaves of writes that nobody was told of: any part of them, then anything.
    filled(tmp_path / "more", messages[:40])
    filled(tmp_path / "more", messages[40:])
    for _ in range(10):
        cut = tmp_path / "cut"
        shutil.copytree(tmp_path / "more", cut)
        (cut / "lock").unlink()
        last = max(path for path in (cut / STREAM.topic).glob("*.spool") if path.stat().st_size)
        data = last.read_bytes()
        kept = rng.randrange(len(data) + 1)
        last.write_bytes(data[:kept])
        found = read_all(cut)
        n = int(last.stem)
        assert n >= 40
        assert found[:n] == list(enumerate(messages[:n]))
        assert found == list(enumerate(messages))[: len(found)]
        # And it is gone on from there, by whoever opens it next.
        filled(cut, [b"\x0anext"])
        assert read_all(cut) == [*found, (len(found), b"\x0anext")]
        shutil.rmtree(cut)


def test_files_go_once_the_lake_has_them(tmp_path: Path) -> None:
    clock = [0.0]
    spool = Spool(tmp_path, SETTINGS, lambda: clock[0])
    messages = messages_of(1, 40)
    for message in messages:
        spool.append(STREAM.topic, message).result(10)
    source = SpoolSource(spool, 0, DecodeConfig())
    assert source.change().gained == (STREAM,)
    assert not source.change()
    started = source.start(STREAM, None)
    polls: list[Payloads] = []
    while (payloads := source.poll(0.0)) is not None:
        polls.append(payloads)
    files = sorted((tmp_path / STREAM.topic).glob("*.spool"))
    assert len(files) > 2
    source.commit_offsets({STREAM: polls[-1].until})
    assert settled(tmp_path, lambda left: left == files[-1:])
    spool.append(STREAM.topic, b"\x0aafter").result(10)
    clock[0] += 3_600
    source.commit_offsets({STREAM: polls[-1].until + 1})
    assert settled(tmp_path, lambda left: [int(path.stem) for path in left] == [len(messages) + 1])
    spool.append(STREAM.topic, b"\x0alater").result(10)
    with pytest.raises(GapError):
        source.start(STREAM, Place(3, started.topic_id))
    with pytest.raises(CutBackError):
        source.start(STREAM, Place(1_000, started.topic_id))
    with pytest.raises(TopicChangedError):
        source.start(STREAM, Place(len(messages), "another"))
    spool.close()
    assert [at for at, _ in read_all(tmp_path, Place(len(messages) + 1, started.topic_id))] == [41]


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_file_that_the_lake_has_goes_with_its_age(tmp_path: Path, is_busy: bool) -> None:
    spool = Spool(tmp_path, SETTINGS.model_copy(update={"segment_age_ns": 10**9}))
    spool.append(STREAM.topic, b"\x0a").result(10)
    spool.committed(STREAM.topic, 1)
    n, deadline = 1, time.monotonic() + 10
    while (tmp_path / STREAM.topic / f"{0:020d}.spool").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
        if is_busy:  # the lake never has all: another message comes before it has
            spool.append(STREAM.topic, b"\x0a").result(10)
            spool.committed(STREAM.topic, n)
            n += 1
    spool.close()


def test_an_empty_spool_keeps_its_next_number(tmp_path: Path) -> None:
    clock = [0.0]
    spool = Spool(tmp_path, SETTINGS, lambda: clock[0])
    for _ in range(5):
        spool.append(STREAM.topic, b"\x0a").result(10)
    clock[0] += 3_600
    spool.committed(STREAM.topic, 5)
    spool.close()
    for _ in range(3):
        Spool(tmp_path, SETTINGS).close()
    spool = Spool(tmp_path, SETTINGS)
    assert spool.bounds(STREAM.topic) == (5, 5)
    spool.close()


def test_messages_of_a_damaged_file_are_a_dead_letter(tmp_path: Path) -> None:
    messages = [b"\x0a" + bytes(30_000) for _ in range(6)]
    filled(tmp_path, messages)
    first, second, *_ = sorted((tmp_path / STREAM.topic).glob("*.spool"))
    first.write_bytes(first.read_bytes()[:40_000])
    spool = Spool(tmp_path, SETTINGS)
    source = SpoolSource(spool, 0, DecodeConfig())
    source.change()
    source.start(STREAM, None)
    polls = []
    while (payloads := source.poll(0.0)) is not None:
        polls.append(payloads)
    assert next(p.positions for p in polls if p.payloads) == [0]
    (reject,) = [reject for p in polls for reject in p.rejects]
    assert reject.payload == 1
    assert f"messages 1 to {int(second.stem) - 1}" in reject.detail
    assert polls[-1].until == 6
    spool.close()


def test_a_position_in_what_was_damaged_goes_on_behind_it(tmp_path: Path) -> None:
    filled(tmp_path, [b"\x0a" + bytes(30_000) for _ in range(6)])
    first, second, *_ = sorted((tmp_path / STREAM.topic).glob("*.spool"))
    first.write_bytes(first.read_bytes()[:40_000])
    spool = Spool(tmp_path, SETTINGS)
    source = SpoolSource(spool, 0, DecodeConfig())
    source.change()
    source.start(STREAM, Place(2, None))
    polls = []
    while (payloads := source.poll(0.0)) is not None:
        polls.append(payloads)
    assert [at for poll in polls for at in poll.positions] == [*range(int(second.stem), 6)]
    spool.close()


def test_a_foreign_folder_is_no_stream(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    filled(tmp_path, [b"\x0a"])
    spool = Spool(tmp_path, SETTINGS)
    assert spool.streams().keys() == {STREAM.topic}
    spool.close()
    assert not [*tmp_path.glob("lost+found/*")]


def test_every_folder_above_a_message_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, sync = set(), os.fsync

    def noted(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    filled(tmp_path / "lake" / "spool", [b"\x0a"])
    made = tmp_path / "lake" / "spool" / STREAM.topic
    assert {tmp_path, *list(made.parents)[:2], made, *made.iterdir()} - {made / "id"} <= synced


def test_limits(tmp_path: Path) -> None:
    full = SETTINGS.model_copy(update={"max_spool_bytes": 2**20})
    spool = Spool(tmp_path / "full", full)
    with pytest.raises(SpoolFullError):  # noqa: PT012 - one of them
        for _ in range(40):
            spool.append(STREAM.topic, bytes(60_000)).result(10)
    spool.close()
    reserve = SETTINGS.model_copy(update={"least_free_bytes": 2**60})
    spool = Spool(tmp_path / "reserve", reserve)
    with pytest.raises(SpoolFullError):
        spool.append(STREAM.topic, b"\x0a").result(10)
    spool.close()
    with pytest.raises(SpoolFullError):
        spool.append(STREAM.topic, b"\x0a")
    slow = SETTINGS.model_copy(update={"pending_bytes": 2**20, "sync_interval_ns": 10**8})
    spool = Spool(tmp_path / "slow", slow)
    with pytest.raises(PendingFullError):  # noqa: PT012 - one of them
        for _ in range(10_000):
            spool.append(STREAM.topic, bytes(200_000))
    spool.close()
    assert spool.pending_bytes == 0


def test_trouble_lasts_for_a_pause_and_while_there_is_no_room(tmp_path: Path) -> None:
    now = [0.0]
    reserve = SETTINGS.model_copy(update={"least_free_bytes": 2**60})
    spool = Spool(tmp_path / "reserve", reserve, lambda: now[0])
    assert spool.trouble is None
    with pytest.raises(SpoolFullError):
        spool.append(STREAM.topic, b"\x0a").result(10)
    now[0] += 3600
    assert spool.trouble == "The disk of the spool is full but for its reserve."
    spool._settings = SETTINGS  # there is room again: no write has to show it
    assert spool.trouble is None
    now[0] = 1.0
    assert spool.trouble is not None
    spool.append(STREAM.topic, b"\x0a").result(10)
    assert spool.trouble is None
    spool.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    spool = Spool(tmp_path, SETTINGS)
    with pytest.raises(BusyLakeError):
        Spool(tmp_path, SETTINGS)
    spool.close()
    Spool(tmp_path, SETTINGS).close()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError):
        Spool(tmp_path / "file", SETTINGS)


@pytest.mark.parametrize("content", [None, "", "no PEM"])
@pytest.mark.parametrize("addresses", [("127.0.0.1:0", ""), ("", "127.0.0.1:0")])
def test_a_certificate_that_is_none_is_said_before_anything_is_received(
    content: str | None, addresses: tuple[str, str], tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "pem").write_text(content)
    files = {"certificate_file": tmp_path / "pem", "key_file": tmp_path / "pem"}
    spool = Spool(tmp_path / "spool", SETTINGS)
    try:
        with pytest.raises(ConfigError, match="certificate_file"):
            Receiver(spool, SETTINGS.model_copy(update=files), *addresses, DecodeConfig()).close()
    finally:
        spool.close()
