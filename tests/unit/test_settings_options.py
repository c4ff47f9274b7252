"""Settings models as command-line options, there and back."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import Field, model_validator
from typer.testing import CliRunner, Result

from flowdiff.cli.settings_options import Options, takes_settings
from schemas.config import Config
from schemas.errors import ConfigError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(Config):
    deep_keys: tuple[str, ...] = ()
    """Of the inner one."""


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
    limit: int | None = Field(default=None, ge=5, description="Told by description. And more of it.")
    """Not this."""
    colour: Colour = Colour.RED
    place: Path = Path("here")
    keys: tuple[str, ...] = ("k1", "k2")
    roles: tuple[tuple[str, str], ...] = ()
    size_bytes: int = 1024
    inner: Inner = Inner()

    @model_validator(mode="after")
    def _agree(self) -> Settings:
        if self.mode == "b" and not self.steady:
            raise ValueError("mode b is steady")
        return self


OPTIONS = Options(flags={"size": "--size-of-it", "colour": "--paint", "inner.deep_keys": "--deep"})

seen: list[Any] = []


@takes_settings
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
        (["--roles", "web-[a=b]=web", "--roles", "db=db"], {"roles": (("web-[a=b]", "web"), ("db", "db"))}),
        (["--size-of-it", "4KB"], {"size_bytes": 4096}),
        (["--deep", "a,b"], {"inner": {"deep_keys": ("a", "b")}}),
    ],
)
def test_what_is_typed_is_in_the_model(typed: list[str], changed: dict[str, object]) -> None:
    assert built(*typed) == Settings.model_validate(changed)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["--share", "0"], "--share cannot be '0': input should be greater than 0"),
        (["--share", "1.1"], "--share cannot be '1.1': input should be less than or equal to 1"),
        (["--count", "x"], "--count cannot be 'x': input should be a valid integer"),
        (["--ratio", "inf"], "--ratio cannot be 'inf': input should be a finite number"),
        (["--mode", "c"], "--mode cannot be 'c': input should be 'a' or 'b'"),
        (["--size-of-it", "much"], "--size-of-it: 'much' is not a size"),
        (["--roles", "web"], "--roles cannot be 'web': write PATTERN=WORD"),
        (["--mode", "b", "--no-steady"], "do not go together: mode b is steady"),
    ],
)
def test_what_the_model_refuses_is_one_line_that_names_the_option(typed: list[str], told: str) -> None:
    error = run("x", *typed).exception
    assert isinstance(error, ConfigError)
    assert told in str(error)
    assert "\n" not in str(error)


def helped(option: str) -> str:
    return " ".join(run(option).output.replace("│", " ").split())


def test_help_shows_each_option_with_a_sentence_and_the_default() -> None:
    text = helped("--help")
    assert "--mode a|b How it is done. [default: (a)]" in text
    assert "--share NUMBER A share. [default: (0.5)]" in text
    assert "Told by description." in text
    assert "And more" not in text
    assert "Not this" not in text
    assert "--steady --no-steady" in text
    assert "[default: (k1, k2)]" in text
    assert "--size-of-it SIZE [default: (1KB)]" in text
    assert "--paint" in text


def test_a_key_that_is_not_there_one_that_fits_no_option_and_twins_are_bugs() -> None:
    with pytest.raises(TypeError, match="no key 'nope'"):

        @takes_settings
        def unknown(settings: Annotated[Settings, Options(only=("nope",))]) -> None: ...

    class Odd(Config):
        what: dict[str, int] = Field(default_factory=dict)

    with pytest.raises(TypeError, match="the field 'what' cannot be a key"):
        takes_settings(annotated(Odd))

    with pytest.raises(TypeError, match="two keys want the option --mode"):

        @takes_settings
        def twins(
            one: Annotated[Settings, Options(only=("mode",))],
            two: Annotated[Settings, Options(only=("mode",))],
        ) -> None: ...


def annotated(model: type[Config]) -> Any:
    def whole(settings: Any) -> None:
        seen.append(settings)

    whole.__annotations__["settings"] = Annotated[model, Options()]
    return whole
