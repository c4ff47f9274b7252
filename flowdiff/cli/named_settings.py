"""Settings of methods and the refinement by name: `--set robust.time_floor=0.2`, listed by `--help-all`.

A setting's name is its path in the settings models: the method (or `refine`), then the fields. The first part
may be omitted if one of the available models has the rest. The same names are keys of a configuration
(FLOWDIFF_CONFIG), in tables `[robust]` and `[refine]`; `--set` wins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flowdiff.cli.terminal import echo_lines
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from analyze.methods.port import Chosen
    from analyze.refine.settings import RefineSettings
    from flowdiff.settings.keys import Key
    from schemas.config import Config

REFINE: Final = "refine"
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a setting by its name, as listed by --help-all: refine.level=L3; may be repeated.",
    ),
]


def chosen_settings(
    methods: Sequence[str], texts: Sequence[str], config: Path | None = None
) -> tuple[list[Chosen[Any]], RefineSettings]:
    """Return (methods with their settings, refinement settings).

    texts: `NAME=VALUE` of `--set`; config: configuration file, None: FLOWDIFF_CONFIG. Raises ConfigError.
    """
    from analyze.methods.port import Chosen
    from analyze.methods.registry import method_of

    found = [method_of(name) for name in dict.fromkeys(methods)]
    models = settings_of_texts(
        {REFINE: _model(REFINE)} | {one.name: one.settings for one in found}, texts, config
    )
    return [Chosen(one, models[one.name]) for one in found], models[REFINE]


def refinement(texts: Sequence[str] | None) -> RefineSettings:
    """Settings of the refinement. texts: `NAME=VALUE` of `--set`. Raises ConfigError."""
    settings: RefineSettings = settings_of_texts({REFINE: _model(REFINE)}, texts or ())[REFINE]
    return settings


def settings_of_texts(
    models: Mapping[str, type[Config]], texts: Sequence[str], config: Path | None = None
) -> dict[str, Any]:
    """Section -> settings model, from a configuration and texts `NAME=VALUE`; values of a repeated list
    setting are appended.

    models: section -> settings model. Raises ConfigError.
    """
    file = config or os.environ.get("FLOWDIFF_CONFIG")
    if not texts and not file:
        return {section: model() for section, model in models.items()}
    from flowdiff.cli.settings_options import joined
    from flowdiff.settings.given import Given, document_of, in_document, validated
    from flowdiff.settings.keys import KeyKind

    keys = _keys(models)
    given: dict[str, Given] = {}
    if file:
        document = document_of(Path(file))
        tables = {section: document[section] for section in models if section in document}
        found = in_document(tables, keys, str(file), "--help-all")
        given = {each.name.partition(" ")[0]: each for each in found}
    typed: dict[str, Any] = {}
    for text in texts:
        asked, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: write NAME=VALUE.")
        name = _meant(asked.strip(), keys)
        is_list = keys[name].kind in (KeyKind.LIST, KeyKind.PAIRS)
        typed[name] = [*typed.get(name, ()), value] if is_list else value
        given[name] = Given(keys[name], joined(keys[name], typed[name]), "--set", name)
    return {
        section: validated(model, [each for name, each in given.items() if name.partition(".")[0] == section])
        for section, model in models.items()
    }


def _meant(asked: str, keys: Mapping[str, Key]) -> str:
    """Full name of the settings key that `asked` abbreviates.

    keys: name -> key. Raises ConfigError, which suggests similar names.
    """
    from flowdiff.settings.keys import nearest

    name = asked.replace("-", "_")
    meant = [each for each in keys if name in (each.replace("-", "_"), each.partition(".")[2])]
    if len(meant) > 1:
        raise ConfigError(f"--set {asked}: several have such a setting. Write {' or '.join(meant)}.")
    if not meant:
        raise ConfigError(f"--set {asked}: there is no such setting.{nearest(name, [*keys], '--help-all')}")
    return meant[0]


def help_all_option(*sections: str) -> Any:
    """Option `--help-all`: prints the help, then the settings of `sections` (by default of all methods).

    Of expert settings only name and default are listed.
    """

    def show(context: typer.Context, wanted: bool) -> None:
        if wanted:
            echo_lines(context.get_help())
            echo_lines("Settings, for --set NAME=VALUE, with their defaults:\n\n")
            keys = _keys({name: _model(name) for name in sections}) if sections else method_keys()
            for name, key in keys.items():
                if not key.is_expert:
                    echo_lines("\n".join(filter(None, (*key.default_lines(name), "\n"))) + "\n")
            echo_lines("For experts (`flowdiff config --defaults --expert` explains them):\n\n")
            for name, key in keys.items():
                if key.is_expert:
                    echo_lines(f"{[*key.default_lines(name)][-1]}\n")
            raise typer.Exit

    about = "Show this, and the settings that --set takes."
    return typer.Option("--help-all", is_eager=True, callback=show, help=about)


def method_keys() -> dict[str, Key]:
    """Name (`robust.time_floor`) -> key, for the settings of the refinement and of all methods."""
    from analyze.methods.registry import method_names

    return _keys({name: _model(name) for name in (REFINE, *method_names())})


def _keys(models: Mapping[str, type[Config]]) -> dict[str, Key]:
    from flowdiff.settings.keys import keys_of

    return {f"{section}.{key.name}": key for section, model in models.items() for key in keys_of(model)}


def _model(section: str) -> type[Config]:
    from analyze.methods.registry import settings_of
    from analyze.refine.settings import RefineSettings

    return RefineSettings if section == REFINE else settings_of(section)
