"""What waits to be sent is bounded, and nothing waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from stitch.lake.bucket.bucket_store import Room


def test_no_more_is_under_way_than_there_is_room_for() -> None:
    room, lock = Room(100), threading.Lock()
    used: list[int] = []
    most: list[int] = []

    def send(n_bytes: int) -> None:
        room.take(n_bytes)
        with lock:
            used.append(n_bytes)
            most.append(sum(used))
        with lock:
            used.remove(n_bytes)
        room.give_back(n_bytes)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, [40, 60, 30, 10] * 100))
    assert max(most) <= 100
    assert used == []


def test_what_is_larger_than_the_room_goes_alone() -> None:
    room = Room(100)
    room.take(1_000)
    waited = threading.Thread(target=room.take, args=(1,))
    waited.start()
    waited.join(0.05)
    assert waited.is_alive()
    room.give_back(1_000)
    waited.join(10)
    assert not waited.is_alive()
    room.take(99)
