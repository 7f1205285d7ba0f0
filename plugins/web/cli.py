"""memoryd web: pages to see, search, explain and repair what is remembered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import typer

from daemon.cli.common import id_option, open_database, postgres, settings_or_exit
from daemon.cli.failure import Failure, Misuse, sentences
from plugins.operate.callers import LOCAL

if TYPE_CHECKING:
    import socket

    from daemon.settings import Settings
    from plugins.web.sign_in import Guard

SHORTEST_PASSWORD = 12


def web(  # noqa: PLR0913, PLR0917 - the options of a command
    port: int = typer.Option(9480, min=0, max=65535, help="The port. 0: a free one, which the log names."),
    listen: str = typer.Option(
        "127.0.0.1",
        metavar="ADDRESS",
        help="Where to listen. Beyond this machine only with --password-file or --proxy-user-header.",
    ),
    host: list[str] | None = typer.Option(
        None,
        metavar="NAME",
        help="A name by which browsers call this server, beside localhost; several are possible.",
    ),
    password_file: Path | None = typer.Option(
        None, metavar="FILE", help="A file whose first line is the password, instead of a token in the URL."
    ),
    proxy_user_header: str | None = typer.Option(
        None,
        metavar="HEADER",
        help="The header in which the proxy before this server names who asks, such as X-Forwarded-User.",
    ),
    proxy_address: list[str] | None = typer.Option(
        None,
        metavar="ADDRESS|NETWORK",
        help="Where that proxy asks from, such as 10.0.0.5 or 10.0.0.0/24; several are possible. Others are refused. "
        "Without it: this machine.",
    ),
    as_user: UUID | None = id_option(
        "--as-user", says="Show what this end user may see, with that user's rights, instead of support's."
    ),
    edit: bool = typer.Option(False, "--edit", help="Let pages change and delete what is remembered."),
    session_minutes: float = typer.Option(
        720.0, min=1, max=43_200, help="After this time without a request a session ends."
    ),
) -> None:
    """Serve pages on this machine: what is remembered, why it is found, and how memoryd does. Prints the URL to open.

    As support, each read of a user's rows is put on the audit trail. Needs the extra web: see docs/web.md
    """
    with sentences():
        try:
            import jinja2
            import starlette
            import uvicorn  # noqa: F401 - are they installed?
        except ImportError:
            from providers.ports import missing

            raise Failure(missing("memoryd web", "web")) from None
        del jinja2, starlette
        guard, token = _guard(listen, password_file, proxy_user_header, proxy_address or [], session_minutes)
        hosts = (*LOCAL, *(host or ())) if listen in LOCAL or host else ()
    settings = settings_or_exit()
    with sentences(), postgres(settings, existing=True) as (url, _server):
        opened = _open(port, listen)
        asyncio.run(_serve(settings, url, opened, guard, token=token, hosts=hosts, user=as_user, edits=edit))


def _guard(
    listen: str, password_file: Path | None, proxy_header: str | None, proxies: list[str], minutes: float
) -> tuple[Guard, str | None]:
    """The guard of the sign-in, and the token for the URL where one is used."""
    import secrets
    from ipaddress import ip_network

    from plugins.web.sign_in import LOOPBACK, Guard

    if proxies and proxy_header is None:
        raise Misuse("--proxy-address belongs to --proxy-user-header: give that too.")
    if password_file is not None and proxy_header is not None:
        raise Misuse("--password-file and --proxy-user-header are two ways to sign in: give one of them.")
    if proxy_header is not None:
        if not proxy_header.replace("-", "").isalnum():
            raise Misuse("--proxy-user-header needs the name of a header, such as X-Forwarded-User.")
        try:
            networks = [ip_network(each) for each in proxies]
        except ValueError as error:
            raise Misuse(f"--proxy-address needs an address or a network: {error}.") from None
        return Guard(
            kind="proxy", proxy_header=proxy_header, proxies=networks or LOOPBACK, minutes=minutes
        ), None
    if password_file is not None:
        try:
            first = password_file.read_text("utf-8").partition("\n")[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise Failure(f"{password_file} cannot be read: {reason}") from None
        if len(first) < SHORTEST_PASSWORD:
            raise Failure(
                f"The password in {password_file} has fewer than {SHORTEST_PASSWORD} characters. "
                "A good one: openssl rand -base64 24"
            )
        return Guard(kind="password", secret=first, minutes=minutes), None
    if listen not in LOCAL:
        raise Misuse(
            f"To listen on {listen} is to let others in: give --password-file FILE, or --proxy-user-header behind a proxy that "
            "knows who asks."
        )
    token = secrets.token_urlsafe(32)
    return Guard(kind="token", secret=token, minutes=minutes), token


def _open(port: int, address: str) -> socket.socket:
    from plugins.operate.callers import listen

    try:
        return listen(port, address)
    except OSError as error:
        raise Failure(
            f"Port {port} of {address} cannot be used: {error.strerror}. Give another: --port"
        ) from None


async def _serve(
    settings: Settings,
    url: str,
    opened: socket.socket,
    guard: Guard,
    *,
    token: str | None,
    hosts: tuple[str, ...],
    user: UUID | None,
    edits: bool,
) -> None:
    from daemon.logs import get_logger
    from plugins.operate.asgi import serve
    from plugins.web.app import build_app
    from plugins.web.viewer import Viewer, check_viewer
    from plugins.web.web import Web

    log = get_logger()
    host, port = opened.getsockname()[:2]
    async with open_database(settings, url, application="memoryd web") as database:
        await check_viewer(database, Viewer("support", user))
        served = Web(database, settings, guard, log, user, edits)
        app = build_app(served, hosts=hosts, port=port)
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        log.info(
            "web_listening",
            url=address,
            user_id=None if user is None else str(user),
            edits=edits,
            sign_in=guard.kind,
        )
        if token is not None:
            # To stdout, for the person who started it: a log is kept, and read by others.
            typer.echo(f"Open {address}sign-in?token={token}")
        await serve(app, opened, lifespan="off")
