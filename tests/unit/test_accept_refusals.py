"""A refused `flowdiff incidents accept` names the reason: nothing, several, or no longer open."""

from __future__ import annotations

import pytest

from analyze.watch.watching import not_acceptable
from schemas.incidents import Incident, IncidentState


def incident(id_: str, state: IncidentState) -> Incident:
    return Incident.model_construct(id=id_, state=state)


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ([], "No open incident has an id that begins with '17b'."),
        ([incident("17b00ea8", "resolved")], "17b00ea8 is resolved; only open ones can be accepted."),
        (
            [incident("17b0", "open"), incident("17b1", "worse"), incident("17b2", "accepted")],
            "The ids of 2 open incidents begin with '17b'.",
        ),
    ],
)
def test_a_refused_acceptance_says_why(named: list[Incident], reason: str) -> None:
    assert not_acceptable("17b", named) == reason
