"""A command with the options of methods beside its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel

from analyze.methods.port import AnyMethod, Chosen
from flowdiff.model_options import FieldOption, ModelOptions, takes_models


def with_methods(run: Callable[..., None], methods: Sequence[AnyMethod]) -> Callable[..., None]:
    """`run` as a command: its parameters and the settings of some methods are the options.

    It takes what was chosen, methods with settings, as the keyword `chosen`, which is no option. A field that
    `run` or an earlier method has, too, is called `--<method>-<field>`.
    """
    taken = set(inspect.signature(run).parameters)
    places: dict[str, AnyMethod] = {}
    hints = get_type_hints(run, include_extras=True)
    parameters = [p for p in inspect.signature(run).parameters.values() if p.name != "chosen"]
    for method in methods:
        place = f"settings_of_{method.name.replace('-', '_')}"
        fields = method.settings.model_fields
        named = {
            name: FieldOption(f"--{method.name}-{name.replace('_', '-')}") for name in fields if name in taken
        }
        taken |= fields.keys()
        nested = tuple(name for name, field in fields.items() if isinstance(field.default, BaseModel))
        places[place] = method
        hints[place] = Annotated[method.settings, ModelOptions(leave_out=nested, fields=named)]
        parameters.append(inspect.Parameter(place, inspect.Parameter.KEYWORD_ONLY))

    def command(**given: Any) -> None:
        chosen = [Chosen(method, given.pop(place)) for place, method in places.items()]
        run(chosen=chosen, **given)

    command.__doc__ = run.__doc__
    command.__annotations__ = {p.name: hints[p.name] for p in parameters} | {"return": None}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return takes_models(command)
