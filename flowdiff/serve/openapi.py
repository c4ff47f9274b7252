"""OpenAPI document of the server's addresses, generated from the table of pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from flowdiff.cli.version import version
from flowdiff.serve.routes import Page

_IN_PATH = re.compile(r"{(\w+)(?::path)?}")
"""Pattern of a parameter in a path; a parameter of type `path` may contain slashes, as request ids do."""


def openapi(pages: Sequence[Page], base: str) -> dict[str, Any]:
    """OpenAPI document of all pages; each page answers with JSON to `format=json`. base: base path of the
    server.
    """
    paths: dict[str, dict[str, Any]] = {}
    for page in pages:
        paths.setdefault(_IN_PATH.sub(r"{\1}", page.path), {})[page.method.lower()] = _operation(page)
    return {
        "openapi": "3.1.0",
        "info": {"title": "flowdiff", "version": version()},
        "servers": [{"url": base or "/"}],
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _operation(page: Page) -> dict[str, Any]:
    text = {"type": "string"}
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": text} for name in _IN_PATH.findall(page.path)
    ]
    operation: dict[str, Any] = {"summary": page.about, "parameters": in_path}
    answer = "the page; with format=json its data" if page.method == "GET" else "the address to go on with"
    if page.method == "GET":
        asked = [(one.name, one.about) for one in page.parameters]
        if "format" not in dict(asked):
            asked.append(("format", "json for data"))
        operation["parameters"] += [
            {"name": name, "in": "query", "description": about, "schema": text} for name, about in asked
        ]
        operation["responses"] = {"200": {"description": answer}, "default": {"description": "why not"}}
        return operation
    fields = {one.name: {**text, "description": one.about} for one in page.parameters}
    form = {"schema": {"type": "object", "properties": fields}}
    operation["requestBody"] = {"content": {"application/x-www-form-urlencoded": form}}
    operation["responses"] = {"303": {"description": answer}, "default": {"description": "why not"}}
    operation["description"] = f"Needs the role {page.role.name.lower()}."
    return operation
