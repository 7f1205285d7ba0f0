"""The checks before a page answers: the host's name, the session, and the origin of a form.

Promise: without a session only the sign-in and the static files (style sheet, scripts) are answered. A form that another site
sends is refused by three marks: the session's token, the Origin header, and the Sec-Fetch headers.
Every answer forbids foreign and inline scripts and styles, frames around the page, and copies in caches.
"""

from __future__ import annotations

from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plugins.operate.callers import name_in
from plugins.web.errors import refusal
from plugins.web.forms import LARGEST, LARGEST_SIGN_IN, SAFE, TooLongError, read_form
from plugins.web.sign_in import LONGEST_NAME, Guard, Session

OPEN = ("/sign-in", "/static/")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


def cookie_name(port: int) -> str:
    """Cookies are shared by all ports of a host: two servers on one machine must not sign each other out."""
    return f"memoryd-{port}"


class Gate:
    """Middleware around all pages. `hosts`: the names by which this server may be called; empty: any."""

    def __init__(self, app: ASGIApp, *, guard: Guard, hosts: tuple[str, ...], port: int) -> None:
        self._app = app
        self._guard = guard
        self._hosts = tuple(host.lower() for host in hosts)
        self._cookie = cookie_name(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        request = Request(scope, receive)
        try:
            answer = await self._refused(request)
        except ClientDisconnect:
            return
        await (answer or self._app)(scope, receive, send_guarded)

    def _not_heard(self, request: Request) -> Response | None:
        if request.client is None or not self._guard.takes_from(request.client.host):
            return refusal(request, 403, "This server answers only its proxy (memoryd web --proxy-address).")
        if self._hosts and name_in(request.headers.get("host", "")) not in self._hosts:
            return refusal(request, 421, "This server does not answer to that name (memoryd web --host).")
        if is_within_another_site(request):
            return refusal(request, 403, "Another site asked for this page, to show or read it there.")
        return None

    async def _refused(self, request: Request) -> Response | None:
        if (refused := self._not_heard(request)) is not None:
            return refused
        request.state.session = session = self._session(request)
        is_open = request.url.path.startswith(OPEN)
        if session is None and not is_open:
            return self._sign_in(request)
        if request.method in SAFE:
            return None
        if is_from_elsewhere(request):
            return refusal(request, 403, "This form came from another site, so nothing was done.")
        try:
            request.state.form = await read_form(request, largest=LARGEST_SIGN_IN if is_open else LARGEST)
        except TimeoutError:
            return refusal(
                request, 408, "This form did not come in time, so nothing was done. Send it again."
            )
        except TooLongError as error:
            return refusal(request, 413, str(error))
        except ValueError as error:
            return refusal(request, 400, str(error))
        if not is_open and session is not None and request.state.form.get("csrf") != session.csrf:
            return refusal(
                request,
                403,
                "This form is of an earlier session, so nothing was done. Go back, load the page again, and repeat it.",
            )
        return None

    def _session(self, request: HTTPConnection) -> Session | None:
        if self._guard.proxy_header is not None:
            # Two names: the proxy added its own to one that came from the browser; some proxies join them with a comma.
            names = [name.strip() for name in request.headers.getlist(self._guard.proxy_header)]
            known = len(names) == 1 and 0 < len(names[0]) <= LONGEST_NAME and "," not in names[0]
            return self._guard.session_of_proxy(names[0]) if known else None
        return self._guard.session_of(request.cookies.get(self._cookie))

    def _sign_in(self, request: Request) -> Response:
        if self._guard.kind == "proxy":
            return refusal(request, 401, "The proxy before this server does not say who you are.")
        if request.method not in SAFE:
            return refusal(
                request,
                401,
                "Your session has ended, so nothing was done. Sign in in another tab; then go back here, where your text is, "
                "and send it again.",
            )
        url = request.url
        to = "/sign-in?next=" + quote(f"{url.path}?{url.query}" if url.query else url.path)
        if "hx-request" in request.headers:
            return Response(status_code=401, headers={"HX-Redirect": to})
        return Response(status_code=303, headers={"Location": to})


def is_within_another_site(request: Request) -> bool:
    """Whether a page of another site loads this as a part of itself (picture, frame, fetch), not by a link.

    Behind a proxy that knows the browser, such a request would read rows and be recorded under the reader's name.
    """
    site = request.headers.get("sec-fetch-site", "none")
    return (
        site in ("cross-site", "same-site")
        and request.headers.get("sec-fetch-dest", "document") != "document"
    )


def is_from_elsewhere(request: Request) -> bool:
    """Whether a page of another site made the browser send this."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    ours = tuple(f"{scheme}://{request.headers.get('host', '')}/".lower() for scheme in ("http", "https"))
    origin, referer = request.headers.get("origin"), request.headers.get("referer")
    return (origin is not None and f"{origin}/".lower() not in ours) or (
        bool(referer) and not f"{referer}/".lower().startswith(ours)
    )
