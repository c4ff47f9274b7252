"""Options of the refinement, alike in every command that refines."""

from __future__ import annotations

from typing import Final

from flowdiff.model_options import FieldOption, ModelOptions

REFINE_OPTIONS: Final = ModelOptions(
    only=("level", "host_policy", "host_roles"),
    fields={
        "host_policy": FieldOption("--hosts", help="Whether hosts are part of the structure."),
        "host_roles": FieldOption(
            "--host-role", help="Role of the hosts that match, for `--hosts role`: REGEX=ROLE."
        ),
    },
)
