"""Limit on the length of an answer in tokens of a language model, estimated from its characters."""

from __future__ import annotations

from typing import Final

CHARACTERS_A_TOKEN: Final = 3
"""Assumed number of characters per token: about four in prose, fewer in names, ids and numbers."""
LEAST, MOST, DEFAULT = 200, 8_000, 2_000


def within(text: str, budget_tokens: int, more: str) -> str:
    """Cut text at a line end so that it has at most `budget_tokens` tokens.

    more: sentence on how to get the rest.
    """
    room = min(max(budget_tokens, LEAST), MOST) * CHARACTERS_A_TOKEN
    if len(text) <= room:
        return text
    lines = text.splitlines()
    kept: list[str] = []
    end = f"… {{}} more lines. {more}"
    room -= len(end) + 8
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join([*kept, end.format(len(lines) - len(kept))])
