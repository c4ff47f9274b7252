"""Registry of methods, found by folder: `analyze.methods.<folder>.method` with an attribute `METHOD`.

There is no list to extend. A folder without a module `method` is not a method. The command line makes options
from a method's module `settings`, without importing the method.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from analyze import methods
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from analyze.methods.port import AnyMethod
    from schemas.config import Config

_FOLDER: Final = methods.__name__


def method_names() -> tuple[str, ...]:
    """Names of all methods, sorted: their folders with `-` for `_`. Imports no method."""
    return tuple(
        folder.name.replace("_", "-")
        for folder in pkgutil.iter_modules(methods.__path__)
        if folder.ispkg and find_spec(f"{_FOLDER}.{folder.name}.method") is not None
    )


def method_of(name: str) -> AnyMethod:
    """Import and return a method by name. Raises ConfigError, which lists the methods, for an unknown name;
    TypeError if its module has no valid METHOD."""
    from analyze.methods.port import Method

    module = f"{_package(name)}.method"
    method = getattr(import_module(module), "METHOD", None)
    if not isinstance(method, Method) or method.name != name:
        raise TypeError(f"{module} has no METHOD '{name}'")
    return method


def settings_of(name: str) -> type[Config]:
    """Settings model of a method, by the method's name: class `<Name>Settings` of its module `settings`.

    Only that module is imported; if it does not exist, the method is imported and its `settings` are
    returned. Raises ConfigError, which lists the methods.
    """
    module = f"{_package(name)}.settings"
    if find_spec(module) is None:
        return method_of(name).settings
    words = "".join(word.capitalize() for word in name.split("-"))
    model: type[Config] = getattr(import_module(module), f"{words}Settings")
    return model


def _package(name: str) -> str:
    if name not in (names := method_names()):
        raise ConfigError(f"There is no method '{name}'.", remedy=f"Methods are: {', '.join(names)}.")
    return f"{_FOLDER}.{name.replace('-', '_')}"
