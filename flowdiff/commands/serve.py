"""`flowdiff serve`: a lake as pages in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from flowdiff.cli.options import LakeOption, set_values
from flowdiff.cli.outcome import say
from flowdiff.live.memory import share_one_heap
from schemas.errors import ConfigError
from schemas.masking import masked_address

LISTEN = "127.0.0.1:4320"


def command(
    lake: LakeOption,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address to listen on; port 0 chooses a free one.")
    ] = LISTEN,
    base_path: Annotated[
        str, typer.Option(metavar="/PATH", help="Base path under which a proxy serves the pages.")
    ] = "",
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Host name under which browsers may reach the server, beside that of --listen; may be"
            " repeated.",
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of users, one per line: `read|run|mark NAME TOKEN`. Required beyond loopback.",
        ),
    ] = None,
    user_header: Annotated[
        str, typer.Option(metavar="NAME", help="Header in which the proxies of --proxy pass the user.")
    ] = "",
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address or network of a proxy whose user header is trusted; may be repeated.",
        ),
    ] = None,
    anyone: Annotated[
        bool, typer.Option("--anyone", help="Serve everybody who can connect, also beyond loopback.")
    ] = False,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for results of comparisons. Default: a temporary one, removed when the server ends.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set a limit by its name: see docs/internals/serve.md; may be repeated.",
        ),
    ] = None,
) -> None:
    """Serve a lake as web pages: current state, comparisons, incidents, reports, SQL.

    Listens on loopback only, unless --listen says otherwise. Only reads the lake, except that users with the
    role mark may accept incidents. SIGTERM or Ctrl-C ends it.
    """
    share_one_heap()  # of each further heap up to 64 MB of freed memory would stay

    import logging

    from flowdiff.cli.terminal import echo
    from flowdiff.extras import needed
    from stitch.scratch import Scratch

    address, port = split_address(listen)
    with needed():
        from flowdiff.serve.access import Access, checked_proxies, read_tokens
        from flowdiff.serve.app import make_app
        from flowdiff.serve.guard import LOOPBACK
        from flowdiff.serve.routes import TABS
        from flowdiff.serve.server import listening, log_to, run
        from flowdiff.serve.settings import ServeSettings
        from flowdiff.serve.site import open_site

    limits = set_values(ServeSettings, settings)
    access = Access(
        read_tokens(tokens) if tokens is not None else {},
        user_header,
        checked_proxies(user_header, tuple(proxy or ())),
    )
    if access.is_open and address not in LOOPBACK and not anyone:
        raise ConfigError(
            f"Whoever reaches '{listen}' could read the lake.",
            remedy="Give --tokens FILE, or --user-header and --proxy, or --anyone.",
        )
    if base_path and not re.fullmatch(r"(/[\w.~-]+)+", base_path, re.ASCII):
        raise ConfigError(f"--base-path '{base_path}' is no path.", remedy="Write it as /flowdiff.")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("flowdiff: %(message)s"))
    log_to(handler)
    bound = listening(address, port)
    port = bound.getsockname()[1]
    scratch = Scratch()
    site = open_site(lake, limits, base_path, TABS, cache or scratch.folder)
    shown = f"[{address}]" if ":" in address else address
    try:
        app = make_app(
            site,
            access,
            {address, *LOOPBACK, *(host or ())} if address in LOOPBACK else {address, *(host or ())},
        )
        run(app, bound, limits, lambda: echo(f"Look at http://{shown}:{port}{base_path}/"))
    finally:
        site.close()
    say("stopped.")


def split_address(text: str) -> tuple[str, int]:
    """Split `HOST:PORT` or `[::1]:PORT` into host and port. Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(
            f"'{masked_address(text)}' is no address.", remedy="Write HOST:PORT, for example 127.0.0.1:4320."
        )
    return host, int(port)
