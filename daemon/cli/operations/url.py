"""memoryd url: where the database is, for other programs."""

from __future__ import annotations

import typer

from daemon.cli.common import own_server, settings_or_exit
from daemon.cli.failure import sentences
from daemon.cli.output import remark, say


def url(
    tcp: bool = typer.Option(
        False,
        "--tcp",
        help="The embedded server's address on 127.0.0.1, with its password, instead of its socket.",
    ),
) -> None:
    """Print the URL of the database, the password included."""
    settings = settings_or_exit(quiet=True)
    if settings.database_url is not None:
        say(settings.database_url.get_secret_value())
        return
    with sentences():
        server = own_server(settings, existing=True)
        say(server.tcp_url if tcp else server.socket_url)
        if not server.is_running():
            remark("It is not running now. Start it: make run (or memoryd run)")
