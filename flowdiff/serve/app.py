"""Application: pages, static files, health and metrics behind the guard."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

from anyio import CapacityLimiter, to_thread
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from analyze.report.blocks import Text
from flowdiff.extras import installed
from flowdiff.serve.access import COOKIE, Access, Role, User
from flowdiff.serve.answer import Answer, Asked, Moved, Reply, SentFile, Whole
from flowdiff.serve.busy import BusyError, ForbiddenError
from flowdiff.serve.guard import Guard, RefusedError
from flowdiff.serve.openapi import openapi
from flowdiff.serve.routes import PAGES, Page
from flowdiff.serve.shared_answers import SharedAnswers
from flowdiff.serve.shell import json_of, static_files
from flowdiff.serve.site import Site
from schemas.errors import FlowdiffError, NotFoundError, UnreachableError

_LOG: Final = logging.getLogger("flowdiff.serve")
_MOST_FIELDS: Final = 100
"""Maximum number of fields in a form or a query string; a request with more is refused."""
_RETRY_SECONDS: Final = 5
_PIECE_BYTES: Final = 64 * 1024
"""Size of the pieces, bytes, in which a file is read and sent."""
_YEAR_SECONDS: Final = 365 * 86_400
_JSON: Final = "application/json"
_AGENTS: Final = "/mcp"
"""Path of the agents' tools; clients may add a trailing slash."""


@dataclass(frozen=True, slots=True)
class _Metrics:
    """Prometheus counters of the server."""

    registry: CollectorRegistry
    answers: Counter
    seconds: Histogram


def _metrics() -> _Metrics:
    registry = CollectorRegistry()
    return _Metrics(
        registry,
        Counter(
            "flowdiff_serve_answers", "Answers by page and status.", ["page", "status"], registry=registry
        ),
        Histogram("flowdiff_serve_answer_seconds", "Time to make an answer.", ["page"], registry=registry),
    )


def make_app(site: Site, access: Access, hosts: Collection[str]) -> Guard:
    """Make the application for a site. hosts: names by which the server may be reached, without ports."""
    metrics = _metrics()
    limiter: list[CapacityLimiter] = []

    agents = _agents(site) if installed("mcp") else None
    shared = SharedAnswers(site.settings.fresh_seconds, site.settings.shared_answers_bytes)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        limiter.append(CapacityLimiter(site.settings.threads))
        async with AsyncExitStack() as stack:
            if agents is not None:
                await stack.enter_async_context(agents.router.lifespan_context(agents))
            yield

    def endpoint(page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            began = time.perf_counter()

            async def made() -> Response:
                return await _answered(site, access, page, request, limiter[0])

            if page.is_shared and access.user(request).role >= page.role:
                response = await shared.get(_address_of(request), made)
            else:
                response = await made()
            if page.method == "POST" and response.status_code < HTTPStatus.BAD_REQUEST:
                shared.forget()
            metrics.seconds.labels(page.path).observe(time.perf_counter() - began)
            metrics.answers.labels(page.path, str(response.status_code)).inc()
            return response

        return answered

    async def measured(request: Request) -> Response:
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(metrics.registry), media_type=kind)

    async def described(_: Request) -> Response:
        return Response(json_of(openapi(PAGES, site.links.base)), media_type=_JSON)

    async def signed_in(request: Request) -> Response:
        return await _signed_in(site, access, request)

    base = site.links.base

    def beginning(path: str) -> Callable[[Request], Awaitable[Response]]:
        async def redirected(request: Request) -> Response:
            query = f"?{request.url.query}" if request.url.query else ""
            return RedirectResponse(f"{base}{path}/{query}", HTTPStatus.TEMPORARY_REDIRECT)

        return redirected

    of_agents: list[BaseRoute] = []
    if agents is not None:
        of_agents.append(Route(_AGENTS, beginning(_AGENTS), methods=["GET", "POST", "DELETE"]))
        of_agents.append(Mount(_AGENTS, _for_role(agents, access, Role.RUN)))
    routes: list[BaseRoute] = [
        *(Route(page.path, endpoint(page), methods=[page.method]) for page in PAGES),
        *of_agents,
        Route("/static/{name}", _static),
        Route("/sign-in", signed_in, methods=["POST"]),
        Route("/healthz", _health),
        Route("/openapi.json", described),
        Route("/metrics", measured),
        Route("/favicon.ico", _no_icon),
    ]

    async def missing(request: Request, _: Exception) -> Response:
        return _error(site, request, HTTPStatus.NOT_FOUND, NotFoundError("There is no such page."), "")

    app = Starlette(
        routes=[Route(base, beginning("")), Mount(base, app=Router(routes, redirect_slashes=False))]
        if base
        else routes,
        lifespan=lifespan,
        exception_handlers={HTTPStatus.NOT_FOUND: missing, RefusedError: _body_refused},
    )
    # Starlette's would name the server by its own scheme and host, which behind a proxy are others.
    app.router.redirect_slashes = False
    return Guard(app, hosts, site.settings)


def _agents(site: Site) -> Starlette:
    from flowdiff.serve.agents.server import agent_app, agent_server

    return agent_app(agent_server(site))


def _for_role(app: ASGIApp, access: Access, role: Role) -> ASGIApp:
    """Wrap an application so that it refuses users whose role is below `role`."""

    async def allowed(scope: Scope, receive: Receive, send: Send) -> None:
        user = access.user(HTTPConnection(scope))
        if user.role >= role:
            await app(scope, receive, send)
            return
        status = HTTPStatus.FORBIDDEN if user.role > Role.NONE else HTTPStatus.UNAUTHORIZED
        text = f"This needs a token with the role {role.name.lower()}.\n"
        await PlainTextResponse(text, status, {"www-authenticate": "Bearer"})(scope, receive, send)

    return allowed


async def _answered(
    site: Site, access: Access, page: Page, request: Request, limiter: CapacityLimiter
) -> Response:
    user = access.user(request)
    try:
        if user.role < page.role:
            return _refused(site, request, page, user)
        asked = await _asked(site, request, user)
        reply = await to_thread.run_sync(page.answer, site, asked, limiter=limiter)
        return _response(site, page, request, reply)
    except FlowdiffError as error:
        return _error(site, request, _status(error), error, page.tab)
    except RefusedError as error:
        return await _body_refused(request, error)
    except ClientDisconnect:  # the client is gone
        return Response(status_code=HTTPStatus.BAD_REQUEST)
    except Exception:  # noqa: BLE001 - logged with its traceback; other pages go on
        _LOG.exception("%s failed", request.url.path)
        failed = FlowdiffError("This page failed.", remedy="The server's log says why.")
        return _error(site, request, HTTPStatus.INTERNAL_SERVER_ERROR, failed, page.tab)


async def _asked(site: Site, request: Request, user: User) -> Asked:
    query = request.url.query
    if request.method == "POST":
        query = (await request.body()).decode("utf-8", "replace")
    try:
        values = parse_qs(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise FlowdiffError(f"A request has at most {_MOST_FIELDS} fields.") from error
    path = request.url.path.removeprefix(site.links.base)
    return Asked(
        path={name: str(value) for name, value in request.path_params.items()},
        query=values,
        address=f"{path}?{request.url.query}" if request.url.query else path,
        who=user.name,
        wants_json=_wants_json(request),
        is_foreign=_is_foreign(request),
    )


def _response(site: Site, page: Page, request: Request, reply: Reply) -> Response:
    if isinstance(reply, Moved):
        return RedirectResponse(reply.to, HTTPStatus.SEE_OTHER)
    if isinstance(reply, Whole):
        headers = {"content-security-policy": reply.policy} if reply.policy else {}
        if reply.name:
            headers["content-disposition"] = f'attachment; filename="{reply.name}"'
        if reply.file is not None:
            return _FileResponse(reply.file, headers, reply.kind)
        return Response(reply.body, headers=headers, media_type=reply.kind)
    if _wants_json(request) and reply.data is not None:
        return Response(json_of(reply.data), reply.status, media_type=_JSON)
    return Response(site.shell.page(reply, page.tab), reply.status, media_type="text/html; charset=utf-8")


class _FileResponse(Response):
    """Response that sends a file in pieces, each read once the client has accepted the previous one."""

    def __init__(self, sent: SentFile, headers: Mapping[str, str], media_type: str) -> None:
        super().__init__(headers={**headers, "content-length": str(sent.size)}, media_type=media_type)
        self._sent = sent

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            is_head = scope["method"] == "HEAD"
            while not is_head and (part := await to_thread.run_sync(self._sent.file.read, _PIECE_BYTES)):
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._sent.file.close()
            self._sent.done()


def _is_foreign(request: Request) -> bool:
    """True if a link or form of another web site led the browser to this request."""
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _address_of(request: Request) -> str:
    """Cache key of an answer that is shared by all readers of the same address; requests from other web sites
    get keys of their own."""
    return f"{request.url.path}?{request.url.query}{' foreign' if _is_foreign(request) else ''}"


def _wants_json(request: Request) -> bool:
    return request.query_params.get("format") == "json"


def _status(error: FlowdiffError) -> HTTPStatus:
    if isinstance(error, NotFoundError):
        return HTTPStatus.NOT_FOUND
    if isinstance(error, ForbiddenError):
        return HTTPStatus.FORBIDDEN
    if isinstance(error, BusyError | UnreachableError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.BAD_REQUEST


def _error(site: Site, request: Request, status: HTTPStatus, error: FlowdiffError, tab: str) -> Response:
    headers = {"retry-after": str(_RETRY_SECONDS)} if status is HTTPStatus.SERVICE_UNAVAILABLE else {}
    if _wants_json(request):
        data = {"error": error.slug, "message": error.message, "remedy": error.remedy}
        return Response(json_of(data), status, headers, media_type=_JSON)
    title = "Not found" if status is HTTPStatus.NOT_FOUND else status.phrase
    answer = Answer(title, (Text(error.message, "strong"), Text(error.remedy)), status=status)
    return Response(site.shell.page(answer, tab), status, headers, media_type="text/html; charset=utf-8")


def _refused(site: Site, request: Request, page: Page, user: User) -> Response:
    """Response for a user whose role is too low: asks to sign in, or names the role that is missing."""
    if user.role > Role.NONE:
        needed = ForbiddenError(
            f"This needs the role {page.role.name.lower()}; {user.name} has {user.role.name.lower()}."
        )
        return _error(site, request, HTTPStatus.FORBIDDEN, needed, page.tab)
    if _wants_json(request):
        return _error(site, request, HTTPStatus.UNAUTHORIZED, ForbiddenError("A token is needed."), page.tab)
    back = request.url.path.removeprefix(site.links.base) if request.method == "GET" else "/"
    form = site.shell.rendered("sign_in.html.jinja", back=back)
    answer = Answer("Sign in", (), above=form, status=HTTPStatus.UNAUTHORIZED)
    return Response(
        site.shell.page(answer),
        HTTPStatus.UNAUTHORIZED,
        {"www-authenticate": "Bearer"},
        media_type="text/html; charset=utf-8",
    )


async def _signed_in(site: Site, access: Access, request: Request) -> Response:
    """Response to a sign-in: sets a cookie if the token is valid, and redirects to the page that the user
    wanted."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=_MOST_FIELDS)
    token = fields.get("token", [""])[0]
    if access.of_token(token).role is Role.NONE:
        return _error(site, request, HTTPStatus.UNAUTHORIZED, ForbiddenError("That token is unknown."), "")
    back = fields.get("back", ["/"])[0]
    if not back.startswith("/") or back.startswith(("//", "/\\")):
        back = "/"
    response = RedirectResponse(f"{site.links.base}{back}", HTTPStatus.SEE_OTHER)
    response.set_cookie(
        COOKIE,
        token.strip(),
        max_age=_YEAR_SECONDS,
        path=site.links.base or "/",
        # A proxy that ends TLS speaks plain HTTP to us; the browser says what the user sees.
        secure="https" in (request.url.scheme, request.headers.get("origin", "").partition(":")[0]),
        httponly=True,
        samesite="strict",
    )
    return response


async def _static(request: Request) -> Response:
    for file in static_files().values():
        if file.name == request.path_params["name"]:
            kept = {"cache-control": f"public, max-age={_YEAR_SECONDS}, immutable"}
            return Response(file.body, headers=kept, media_type=file.kind)
    return PlainTextResponse("There is no such file.\n", HTTPStatus.NOT_FOUND)


async def _body_refused(_: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, RefusedError) else HTTPStatus.BAD_REQUEST
    return PlainTextResponse(f"{error}\n", status, {"connection": "close"})


async def _health(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _no_icon(_: Request) -> Response:
    return Response(status_code=HTTPStatus.NO_CONTENT)
