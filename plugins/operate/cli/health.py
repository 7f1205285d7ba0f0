"""memoryd health: asks the daemon of this machine how it is, for the probes of containers."""

from __future__ import annotations

import typer

from daemon.cli.common import settings_or_exit
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import say
from plugins.operate.settings import Http

SECONDS = 5.0
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - what to ask instead of it


def health(
    live: bool = typer.Option(
        False,
        "--live/--ready",
        help="Whether the daemon runs at all; or, as without either, is ready for work.",
    ),
) -> None:
    """Ask the daemon at MEMORYD_HTTP how it is, as a container's probe does. Exit code 1: it is not well."""
    settings = settings_or_exit(quiet=True)
    with sentences():
        address = settings.section(Http).http
        if address is None:
            raise Misuse(
                "MEMORYD_HTTP is not set: the daemon answers this at that port. Set it for both, such as to 9470."
            )
        say(_fetch(address, "/health/live" if live else "/health/ready"))


def _fetch(address: str, path: str) -> str:
    import json
    from http.client import HTTPConnection, HTTPException

    host, _, port = address.rpartition(":")
    connection = HTTPConnection(EVERYWHERE.get(host, host).strip("[]"), int(port), timeout=SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        said = json.loads(answer.read())
        status = str(said["status"])
    except TimeoutError:
        raise Failure(f"The daemon at {address} does not answer within {SECONDS:g} s.") from None
    except OSError as error:
        raise Failure(f"No daemon answers at {address}: {error.strerror or type(error).__name__}.") from None
    except (HTTPException, ValueError, KeyError, TypeError):
        raise Failure(f"What answers at {address} is no memoryd. Is MEMORYD_HTTP the daemon's?") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise Failure(f"The daemon is {status}: {said.get('reason')}.")
    return status
