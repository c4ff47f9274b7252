"""Accept a lake as `--lake`, as FLOWDIFF_LAKE, or as the only positional word of a command without
arguments."""

from __future__ import annotations

from typing import Any

import typer.core

_OPTION = "lake"
"""Name of the parameter for the lake, as in `flowdiff.cli.options.LakeOption`."""


class _WordParser:
    """Option parser that accepts one positional word as the value of `--lake`."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def parse_args(self, args: list[str]) -> tuple[dict[str, Any], list[str], list[Any]]:
        """Return (parameter name -> value, remaining words, parameters in the order given)."""
        given, words, order = self._parser.parse_args(args)
        if words and _OPTION not in given:
            given[_OPTION], *words = words
        return given, words, order


class LakeCommand(typer.core.TyperCommand):
    """Subcommand without arguments, whose lake may be given as the only positional word."""

    def make_parser(self, ctx: Any) -> Any:
        """Parser that takes a positional word as the value of `--lake`, unless that is given."""
        parser = super().make_parser(ctx)
        return _WordParser(parser) if self._takes_word() else parser

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Parts of the usage line, with `[LAKE]` if the lake may be a positional word."""
        return [*super().collect_usage_pieces(ctx), *(["[LAKE]"] if self._takes_word() else [])]

    def _takes_word(self) -> bool:
        names = {parameter.name for parameter in self.params}
        return _OPTION in names and not any(isinstance(one, typer.core.TyperArgument) for one in self.params)
