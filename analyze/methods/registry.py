"""The methods there are, found by folder: `analyze.methods.<folder>.method` with an attribute `METHOD`.

There is no list to add to. A folder without a module `method` is none.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from importlib.util import find_spec

import analyze.methods
from analyze.methods.port import AnyMethod, Method
from schemas.errors import ConfigError


def all_methods() -> dict[str, AnyMethod]:
    """Every method by its name, in order of name. Raises TypeError for a folder that breaks the port."""
    found: dict[str, AnyMethod] = {}
    for folder in pkgutil.iter_modules(analyze.methods.__path__):
        module = f"{analyze.methods.__name__}.{folder.name}.method"
        if not folder.ispkg or find_spec(module) is None:
            continue
        method = getattr(import_module(module), "METHOD", None)
        if not isinstance(method, Method):
            raise TypeError(f"{module} has no METHOD")
        if method.name in found:
            raise TypeError(f"two methods are called '{method.name}'")
        found[method.name] = method
    return dict(sorted(found.items()))


def method_of(name: str) -> AnyMethod:
    """The method of a name. Raises ConfigError, naming those there are."""
    methods = all_methods()
    if name not in methods:
        raise ConfigError(f"There is no method '{name}'.", remedy=f"Methods are: {', '.join(methods)}.")
    return methods[name]
