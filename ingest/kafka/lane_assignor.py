"""Assign partitions to the members of a consumer group: all partitions with one number, over all topics, to
the same member."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import TopicPartition

_SUBSCRIPTION_VERSION = 2
"""First version of the subscription message that contains the generation in which the member owned its
partitions."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of the consumer group, as described to the group's leader."""

    name: str
    """Static id of the member, else the id that the broker assigned. Members are sorted by this name."""
    topics: frozenset[str]
    owned: frozenset[tuple[str, int]]
    """(topic, partition) of the partitions that the member owned in `generation`."""
    generation: int = -1


def owners_of_lanes(
    members: Sequence[GroupMember], partitions: Mapping[str, Iterable[int]]
) -> dict[int, int]:
    """Assign partition numbers to members: number -> index of the member.

    A number stays with the member that owns most of its partitions; if several do, with the one of the newest
    generation, then the first by name. Members with more than their share release the highest numbers; free
    numbers go to the members with the fewest. Shares differ by at most one. Pure function; O(members ·
    numbers).
    """
    numbers = sorted({number for those in partitions.values() for number in those})
    if not members:
        return {}
    order = sorted(range(len(members)), key=lambda index: members[index].name)
    claims: dict[int, Counter[int]] = defaultdict(Counter)
    for index, member in enumerate(members):
        for _, number in member.owned:
            claims[number][index] += 1
    kept: dict[int, list[int]] = {index: [] for index in order}
    for number in numbers:
        if claims[number]:
            best = min(order, key=lambda i: (-claims[number][i], -members[i].generation, members[i].name))
            kept[best].append(number)
    least, with_more = divmod(len(numbers), len(members))
    # Members with the most numbers keep the larger shares, so that the fewest numbers move.
    by_load = sorted(order, key=lambda index: (-len(kept[index]), members[index].name))
    quota = {index: least + (rank < with_more) for rank, index in enumerate(by_load)}
    owner = {number: index for index in order for number in kept[index][: quota[index]]}
    room = Counter({index: quota[index] for index in order})
    room.subtract(owner.values())
    for number in numbers:
        if number not in owner:
            chosen = min(order, key=lambda index: (-room[index], members[index].name))
            owner[number] = chosen
            room[chosen] -= 1
    return owner


def current_owners(members: Sequence[GroupMember]) -> dict[tuple[str, int], int]:
    """Find the current owner of each partition: (topic, partition) -> index of the member.

    If several members claim a partition, the member of the newest generation owns it.
    """
    owner: dict[tuple[str, int], int] = {}
    for index in sorted(range(len(members)), key=lambda i: (members[i].generation, members[i].name)):
        owner.update(dict.fromkeys(members[index].owned, index))
    return owner


def assign_streams(
    members: Sequence[GroupMember], partitions: Mapping[str, Iterable[int]]
) -> list[list[tuple[str, int]]]:
    """[members] partitions to assign now: all partitions with the numbers assigned to the member, except
    those that another member must release first.

    If the member is not subscribed to a topic, its partitions stay unassigned until it is: members with
    different settings are about to be restarted.
    """
    owner, current = owners_of_lanes(members, partitions), current_owners(members)
    given: list[list[tuple[str, int]]] = [[] for _ in members]
    for topic in sorted(partitions):
        for number in sorted(partitions[topic]):
            index = owner[number]
            is_free = current.get((topic, number), index) == index
            if is_free and topic in members[index].topics:
                given[index].append((topic, number))
    return given


class LaneAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python is not typed
    """Adapter of `assign_streams` to kafka-python's assignor; cooperative: only partitions that move are
    interrupted."""

    name = "flowdiff-lanes"

    def __init__(self) -> None:
        self._owned: tuple[TopicPartition, ...] = ()
        self._generation = -1
        self.assigned_from: dict[str, frozenset[int]] | None = None
        """Topic -> partitions that this member assigned last, as the group's leader; None: another member
        leads."""

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Cooperative rebalancing: members keep their partitions during a rebalance."""
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """Subscription message that this member sends to the group's leader."""
        self.assigned_from = None
        by_topic: dict[str, list[int]] = defaultdict(list)
        for stream in self._owned:
            by_topic[stream.topic].append(stream.partition)
        partition = ConsumerProtocolSubscription.TopicPartition
        return ConsumerProtocolSubscription(
            version=_SUBSCRIPTION_VERSION,
            topics=sorted(topics),
            user_data=b"",
            owned_partitions=[
                partition(topic=topic, partitions=sorted(numbers)) for topic, numbers in by_topic.items()
            ],
            generation_id=self._generation,
        )

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, ConsumerProtocolAssignment]:
        """Assign partitions to all members; called on the leader only. `members`: as in the JoinGroup
        response."""
        group = [_member(member) for member in members]
        topics = sorted({topic for member in group for topic in member.topics})
        partitions = {topic: frozenset(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        self.assigned_from = partitions
        shares = assign_streams(group, partitions)
        return {member.member_id: _assignment(share) for member, share in zip(members, shares, strict=True)}

    def on_assignment(self, assignment: ConsumerProtocolAssignment, generation: int) -> None:
        """Store this member's new assignment and its generation."""
        self._owned, self._generation = tuple(assignment.partitions()), generation

    def forget(self) -> None:
        """Clear the assignment after the membership was lost."""
        self._owned, self._generation = (), -1


def _member(member: Any) -> GroupMember:
    metadata = member.metadata
    owned = frozenset(
        (row.topic, number)
        for row in getattr(metadata, "owned_partitions", None) or ()
        for number in row.partitions
    )
    name = getattr(member, "group_instance_id", None) or member.member_id
    return GroupMember(name, frozenset(metadata.topics), owned, getattr(metadata, "generation_id", -1))


def _assignment(share: Iterable[tuple[str, int]]) -> ConsumerProtocolAssignment:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, number in share:
        by_topic[topic].append(number)
    return ConsumerProtocolAssignment(_SUBSCRIPTION_VERSION, sorted(by_topic.items()), b"")
