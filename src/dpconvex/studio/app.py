"""The server of the studio: pages on the loopback address of this computer, for whoever holds the token."""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from threading import Timer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from dpconvex import algorithms
from dpconvex.data.schema import Schema
from dpconvex.data.sources import need
from dpconvex.errors import DpconvexError, InputError
from dpconvex.ledger.ledger import Ledger
from dpconvex.ledger.standing import standings
from dpconvex.report.ledger import write_standing
from dpconvex.studio import attacks, cost, releases, schemas
from dpconvex.version import VERSION

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["make_app", "serve"]

HOST = "127.0.0.1"
_COOKIE = "dpconvex-studio"
_LARGEST = 25_000_000  # bytes of what is posted
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_PAGES = {
    "/": "What it costs",
    "/compare": "Plans side by side",
    "/schema": "Schema",
    "/verify": "Check a release",
    "/ledger": "Ledger",
    "/attacks": "Attacks",
}

Handler = Callable[["Request"], Awaitable["Response"]]


class _Studio:
    """What the pages share: a schema that is being written, the ledger to show, and attacks under way."""

    def __init__(self, ledger: str | None, schema: Schema | None) -> None:
        jinja2 = need("jinja2", "studio")
        self.ledger = ledger
        self.draft: dict[str, Any] = schemas.EMPTY if schema is None else schema.to_dict()
        self.attacks = attacks.Attacks()
        self._pages = jinja2.Environment(
            loader=jinja2.PackageLoader("dpconvex.studio"), autoescape=True, undefined=jinja2.StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._pages.filters["drawn"] = lambda svg: jinja2.utils.markupsafe.Markup(svg)  # our own drawings, no input

    @property
    def schema(self) -> Schema | None:
        """The schema, once nothing is left to fill in."""
        try:
            return Schema.from_dict(self.draft)
        except DpconvexError:
            return None

    def page(self, request: Request, name: str, status: int = 200, **values: Any) -> Response:
        """Fill in a page."""
        from starlette.responses import HTMLResponse

        shared = {"here": request.url.path, "pages": _PAGES, "version": VERSION, "schema": self.schema, "error": None}
        return HTMLResponse(self._pages.get_template(f"{name}.html").render({**shared, **values}), status_code=status)

    # Pages -----------------------------------------------------------------------------------------------------------

    async def cost(self, request: Request) -> Response:
        """What a fit would cost."""
        form = dict(request.query_params)
        values: dict[str, Any] = {"form": {**cost.DEFAULTS, **form}, "tasks": cost.TASKS, "answer": None}
        try:
            found = cost.answer_form(form, self._chosen(form))
            values |= {"answer": found, "position": cost.position(found.question.budget.epsilon)}
        except DpconvexError as error:
            values |= {"error": str(error), "position": 50}
        return self.page(request, "cost", **values)

    async def compare(self, request: Request) -> Response:
        """Plans side by side."""
        form = dict(request.query_params)
        wanted = [
            (form.get(f"algorithm_{k}") or "auto", form.get(f"epsilon_{k}") or at) for k, at in enumerate(_BESIDE)
        ]
        values: dict[str, Any] = {
            "form": {**cost.DEFAULTS, **form}, "tasks": cost.TASKS, "names": ["auto", *algorithms.names()],
            "wanted": wanted, "columns": [],
        }  # fmt: skip
        try:
            asked = cost.read_question(form, self._chosen(form))
            values["columns"] = cost.beside(asked, [(name, cost.read_number(e, "epsilon")) for name, e in wanted])
        except DpconvexError as error:
            values["error"] = str(error)
        return self.page(request, "compare", **values)

    async def write_schema(self, request: Request) -> Response:
        """Describe a table, column by column."""
        error = None
        if request.method == "POST":
            form = await _form(request)
            try:
                self.draft = schemas.changed(self.draft, form)
            except DpconvexError as found:
                error = str(found)
        rows, todo = schemas.shown(self.draft), schemas.unfinished(self.draft)
        return self.page(
            request, "schema", draft=self.draft, rows=rows, unfinished=todo, error=error, kinds=schemas.KINDS
        )

    async def save_schema(self, request: Request) -> Response:
        """The schema as a file."""
        from starlette.responses import Response

        text = json.dumps(self.draft, indent=2, ensure_ascii=False) + "\n"
        headers = {"Content-Disposition": 'attachment; filename="schema.json"'}
        return Response(text, media_type="application/json", headers=headers)

    async def verify(self, request: Request) -> Response:
        """Check a receipt, a model or an evaluation."""
        found = None
        if request.method == "POST":
            form = await _form(request)
            found = releases.check(form.get("release", ""))
        return self.page(request, "verify", found=found)

    async def budgets(self, request: Request) -> Response:
        """Where the budgets of a ledger stand."""
        values: dict[str, Any] = {"url": self.ledger, "found": None, "sections": []}
        if self.ledger is not None:
            try:
                values["found"] = standings(Ledger.open(self.ledger, create=False))
                values["sections"] = list(map(write_standing, values["found"]))
            except (DpconvexError, OSError) as error:
                values["error"] = str(error)
        return self.page(request, "ledger", **values)

    async def exhibits(self, request: Request) -> Response:
        """Attacks on claims that do not hold."""
        return self.page(request, "attacks", exhibits=attacks.exhibits())

    async def attack(self, request: Request) -> Response:
        """Some more runs of an attack, as numbers to draw."""
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import JSONResponse

        form = await _form(request)
        try:
            return JSONResponse(await run_in_threadpool(self.attacks.more, form.get("name", ""), "again" in form))
        except DpconvexError as error:
            return JSONResponse({"error": str(error)}, status_code=400)

    def _chosen(self, form: Mapping[str, str]) -> Schema | None:
        """The schema, unless the form asks about a table without one."""
        return self.schema if form.get("about", "schema") == "schema" else None


_BESIDE = ("0.1", "1", "4")  # budgets of the plans side by side


def make_app(token: str, port: int, *, ledger: str | None = None, schema: Schema | None = None) -> Starlette:
    """Make the application: every page, behind the token.

    Parameters
    ----------
    token : str
        Whoever opens a page with `?token=` once gets a cookie with it; all other requests are refused.
    port : int
        Requests that name another host or port are refused: other sites cannot speak to the studio.
    ledger : str, optional
        Address of the ledger to show.
    schema : Schema, optional
        To begin with.

    Examples
    --------
    >>> from importlib.util import find_spec
    >>> app = make_app("secret", 8642) if find_spec("starlette") else None
    """
    need("starlette", "studio")
    from starlette.applications import Starlette
    from starlette.routing import Route

    studio = _Studio(ledger, schema)
    routes = [
        Route("/", studio.cost),
        Route("/compare", studio.compare),
        Route("/schema", studio.write_schema, methods=["GET", "POST"]),
        Route("/schema.json", studio.save_schema),
        Route("/verify", studio.verify, methods=["GET", "POST"]),
        Route("/ledger", studio.budgets),
        Route("/attacks", studio.exhibits),
        Route("/attack", studio.attack, methods=["POST"]),
        Route("/studio.css", _static("studio.css", "text/css")),
        Route("/studio.js", _static("studio.js", "text/javascript")),
    ]
    for route in routes:
        route.app = _guarded(route.app, token, port)
    return Starlette(routes=routes)


def serve(
    port: int = 0,
    *,
    ledger: str | None = None,
    schema: Schema | None = None,
    browse: bool = True,
    say: Callable[[str], Any] = print,
) -> None:
    """Serve the studio on the loopback address until it is interrupted.

    Parameters
    ----------
    port : int
        0 takes a free one.
    ledger, schema
        As for `make_app`.
    browse : bool
        Open a browser.
    say : function
        What tells the address.
    """
    uvicorn = need("uvicorn", "studio")
    token = secrets.token_urlsafe(24)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            raise InputError(f"port {port} cannot be used ({error.strerror}): take another, or 0 for any") from None
        port = listener.getsockname()[1]
        address = f"http://{HOST}:{port}/?token={token}"
        app = make_app(token, port, ledger=ledger, schema=schema)
        cost.answer_form({}, schema)  # what the first page needs, before anybody waits
        listener.listen()  # who opens the address at once has to wait a moment, not to be refused
        say(f"The studio is at {address}\nIt answers on this computer only, and reads no rows. Ctrl-C ends it.")
        if browse:
            Timer(0.5, webbrowser.open, (address,)).start()
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
        uvicorn.Server(config).run(sockets=[listener])


# What every request passes ------------------------------------------------------------------------------------------


def _guarded(app: Any, token: str, port: int) -> Any:
    """An application that answers only requests of this computer that hold the token."""
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, RedirectResponse

    hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
    cookie = f"{_COOKIE}-{port}"

    def refusal(request: Request) -> Response | None:
        if request.headers.get("host") not in hosts:
            return PlainTextResponse("The studio answers on this computer only.", status_code=421)
        origin = request.headers.get("origin")
        if origin not in (None, "null") and urlsplit(origin).netloc not in hosts:
            return PlainTextResponse("Requests of other sites are refused.", status_code=403)
        given = request.query_params.get("token")
        if given is not None and request.method == "GET" and hmac.compare_digest(given.encode(), token.encode()):
            answer = RedirectResponse(request.url.path, status_code=303)
            answer.set_cookie(cookie, token, httponly=True, samesite="strict")
            return answer
        held = request.cookies.get(cookie, "")
        if not hmac.compare_digest(held.encode(), token.encode()):
            return PlainTextResponse(
                "Open the address that `dpconvex studio` printed: it holds a token.", status_code=403
            )
        return None

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        found = refusal(Request(scope))
        await (found or app)(scope, receive, send_with_headers)

    return guarded


async def _form(request: Request) -> dict[str, str]:
    """What a form posted, each field once."""
    from starlette.exceptions import HTTPException

    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST:
            raise HTTPException(413, "That is too large to be a receipt, a model, an evaluation or a schema.")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20_000))


def _static(name: str, kind: str) -> Handler:
    text = files("dpconvex.studio").joinpath("static", name).read_text(encoding="utf-8")

    async def static(request: Request) -> Response:
        from starlette.responses import Response

        return Response(text, media_type=kind)

    return static
