"""Settings models as command-line options, there and back."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import Field, model_validator
from typer.testing import CliRunner, Result

from analyze.methods.paper.settings import PaperSettings
from analyze.refine.settings import RefineSettings
from flowdiff.model_options import FieldOption, ModelOptions, takes_models
from schemas.config import Config
from schemas.errors import ConfigError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(Config):
    x: int = 0


class Settings(Config):
    """Every type there is."""

    mode: Literal["a", "b"] = "a"
    """How it
    is done."""
    share: float = Field(default=0.5, gt=0, le=1)
    """A share."""
    count: int = Field(default=3, gt=1, lt=9)
    steady: bool = True
    ratio: float | None = None
    limit: int | None = Field(default=None, ge=5, description="Told by description.")
    """Not this."""
    colour: Colour = Colour.RED
    place: Path = Path("here")
    keys: tuple[str, ...] = ("k1", "k2")
    sizes: tuple[int, ...] = ()
    roles: tuple[tuple[str, str], ...] = ()
    size_bytes: int = 1024
    inner: Inner = Inner()

    @model_validator(mode="after")
    def _agree(self) -> Settings:
        if self.mode == "b" and not self.steady:
            raise ValueError("mode b is steady")
        return self


def parse_size(text: str) -> int:
    if not text.endswith("K"):
        raise ValueError("write 4K")
    return int(text[:-1]) * 1024


OPTIONS = ModelOptions(
    leave_out=("inner",),
    fields={
        "size_bytes": FieldOption(
            "--size", parse=parse_size, shown_default="1K", metavar="SIZE", help="Size."
        ),
        "colour": FieldOption("--paint"),
    },
)

seen: list[Any] = []


@takes_models
def command(
    name: Annotated[str, typer.Argument()],
    settings: Annotated[Settings, OPTIONS],
    loud: Annotated[bool, typer.Option("--loud")] = False,
) -> None:
    """Do it."""
    seen.append((name, settings, loud))


def run(*arguments: str, what: Any = command) -> Result:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(what)
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})


def built(*arguments: str) -> Settings:
    seen.clear()
    result = run("x", *arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return seen[0][1]


def test_nothing_typed_is_the_default() -> None:
    assert built() == Settings()
    assert seen[0][::2] == ("x", False)


@pytest.mark.parametrize(
    ("typed", "changed"),
    [
        (["--mode", "b"], {"mode": "b"}),
        (["--share", "1"], {"share": 1.0}),
        (["--count", "2"], {"count": 2}),
        (["--no-steady"], {"steady": False}),
        (["--ratio", "-0.25"], {"ratio": -0.25}),
        (["--limit", "5"], {"limit": 5}),
        (["--paint", "blue"], {"colour": Colour.BLUE}),
        (["--place", "/tmp"], {"place": Path("/tmp")}),
        (["--keys", "a,b", "--keys", "c"], {"keys": ("a", "b", "c")}),
        (["--sizes", "1", "--sizes", "2"], {"sizes": (1, 2)}),
        (["--roles", "web-[a=b]=web", "--roles", "db=db"], {"roles": (("web-[a=b]", "web"), ("db", "db"))}),
        (["--size", "4K"], {"size_bytes": 4096}),
    ],
)
def test_what_is_typed_is_in_the_model(typed: list[str], changed: dict[str, object]) -> None:
    assert built(*typed) == Settings.model_validate(changed)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["--share", "0"], "--share cannot be '0.0': input should be greater than 0"),
        (["--ratio", "inf"], "--ratio cannot be 'inf': input should be a finite number"),
        (["--size", "4"], "--size cannot be '4': write 4K"),
        (["--roles", "web"], "--roles cannot be 'web': write A=B"),
        (["--mode", "b", "--no-steady"], "do not go together: mode b is steady"),
    ],
)
def test_what_the_model_refuses_is_one_line_that_names_the_option(typed: list[str], told: str) -> None:
    error = run("x", *typed).exception
    assert isinstance(error, ConfigError)
    assert told in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    "typed", [["--mode", "c"], ["--count", "1"], ["--count", "9"], ["--limit", "4"], ["--share", "1.1"]]
)
def test_bounds_and_words_are_refused_before_the_model(typed: list[str]) -> None:
    result = run("x", *typed)
    assert result.exit_code == 2
    assert typed[0] in result.output


def test_help_has_the_docstring_the_default_and_the_bounds() -> None:
    text = " ".join(run("--help").output.replace("│", " ").split())
    assert "How it is done. [default: a]" in text
    assert "A share. Above 0. [default: 0.5]" in text
    assert "2<=x<=8" in text
    assert "Told by description." in text
    assert "Not this" not in text
    assert "--steady --no-steady" in text
    assert "[default: (k1, k2)]" in text
    assert "--size SIZE Size. [default: (1K)]" in text
    assert "--inner" not in text


def test_an_unknown_field_one_that_fits_no_option_and_twins_are_bugs() -> None:
    with pytest.raises(TypeError, match="no field 'nope'"):

        @takes_models
        def unknown(settings: Annotated[Settings, ModelOptions(leave_out=("nope",))]) -> None: ...

    with pytest.raises(TypeError, match="'inner' cannot be an option"):

        @takes_models
        def nested(settings: Annotated[Settings, ModelOptions()]) -> None: ...

    with pytest.raises(TypeError, match="two fields want the option --mode"):

        @takes_models
        def twins(
            one: Annotated[Settings, ModelOptions(only=("mode",))],
            two: Annotated[Settings, ModelOptions(only=("mode",))],
        ) -> None: ...


@pytest.mark.parametrize("model", [PaperSettings, RefineSettings])
def test_the_settings_of_a_comparison_are_options(model: type[Config]) -> None:
    def whole(settings: Any) -> None:
        seen.append(settings)

    whole.__annotations__["settings"] = Annotated[model, ModelOptions()]
    seen.clear()
    result = run(what=takes_models(whole))
    assert result.exit_code == 0, (result.output, result.exception)
    assert seen == [model()]
