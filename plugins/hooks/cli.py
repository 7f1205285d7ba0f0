"""memoryd hooks: adds the hooks to the settings of coding agents, and removes them."""

from __future__ import annotations

import json as json_module
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import parse_qs, urlsplit

import typer

from daemon.cli.common import settings_or_exit
from daemon.cli.failure import Failure, Misuse, sentences
from daemon.cli.output import as_json, remark, say, table
from memory.text import is_blank, one_line
from plugins.hooks import hosts
from plugins.hooks.connecting import connect
from plugins.hooks.files import State, config_file, read_config, state_folder
from plugins.hooks.hosts import HOSTS, Unreadable, command_of, installed
from plugins.hooks.libpq import Refusal, Unreachable, library
from plugins.hooks.projects import project_of, root_of

hooks = typer.Typer(
    name="hooks",
    help="Give coding agents memory: Claude Code, Codex, Cursor, Gemini, Copilot, OpenCode. See docs/coding-agents.md",
    no_args_is_help=True,
)


class HostName(StrEnum):
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CURSOR = "cursor"
    GEMINI = "gemini"
    COPILOT = "copilot"
    OPENCODE = "opencode"


def hook(
    event: str = typer.Argument(help="The host's name of the event, such as UserPromptSubmit."),
    host: str = typer.Argument("claude-code", help=f"The host: {', '.join(HostName)}."),
) -> None:
    """Answer an event of a coding agent, for its settings: reads its JSON on stdin. The exit code is always 0.

    `memoryd hooks install` writes these settings.
    """
    del event, host  # daemon/__main__.py calls hook.main() before this is loaded


@hooks.command()
def install(
    host: HostName = typer.Argument(help="The coding agent."),
    project: bool = typer.Option(
        False,
        "--project",
        help="In the settings of the project in this folder, which may be committed.",
    ),
    own: bool = typer.Option(False, "--user", help="In your own settings, for all projects."),
    agent: str | None = typer.Option(
        None, help="The agent whose memory all hosts use. `coding`, unless another one was given before."
    ),
) -> None:
    """Add memoryd to the settings of a coding agent; nothing else in them is changed.

    The database is the one that the environment names (DATABASE_URL, MEMORYD_DATA_DIR, or a file: MEMORYD_ENV_FILE), else the
    one of the first install, else the embedded one of a running `memoryd run` in this folder, whose .env is not read. Its
    address is kept in hooks.json in ~/.config/memoryd.
    """
    with sentences():
        checkout = _checkout(project, own)
        if agent is not None and (is_blank(agent) or len(agent) > 200):
            raise Misuse("--agent needs the agent's id, of at most 200 characters.")
        from daemon.settings import DATABASES, NAMED_BY
        from daemon.settings.databases import readable

        config = read_config()
        url = config.get("url")
        if not url or any(os.environ.get(name) for name in (*DATABASES, NAMED_BY)):
            url = _address()
        url = readable(url, "The URL of the database")
        known = HOSTS[host]
        with _changing(_by_hand(host, checkout)):
            path = known.path(None) if checkout is None else known.path_in(checkout)
            changed = hosts.install(known, path, program=_program(), shared=checkout is not None)
        agent = agent or config.get("agent") or "coding"
        _write_config(Path(config_file()), {"url": url, "agent": agent, "libpq": library(url)})
        say(f"{path} {'names memoryd now' if changed else 'named memoryd already'}.")
        say(f"Memories are of agent {agent}, in the database {_named(url)}.")
        if why := _unreachable(url):
            remark(f"The database cannot be used now, and new memories wait: {why}")
        if not (which("memoryd") if checkout is not None else which(_program())):
            folder = Path(sys.executable).parent
            remark(
                f"memoryd is not on the PATH, so these hooks do nothing: add {folder} to it, or install with --user."
            )
        if known.advice:
            remark(known.advice)
        others = [p for p in (known.path(None), known.path(Path.cwd())) if p != path and installed(known, p)]
        if others:
            remark(f"{others[0]} names memoryd, too: each event would be stored twice. Remove one of them.")


@hooks.command()
def remove(
    host: HostName = typer.Argument(help="The coding agent."),
    project: bool = typer.Option(False, "--project", help="From the settings of the project in this folder."),
    own: bool = typer.Option(False, "--user", help="From your own settings."),
) -> None:
    """Remove memoryd from the settings of a coding agent; nothing else in them is changed. Memories stay."""
    with sentences():
        known, checkout = HOSTS[host], _checkout(project, own)
        with _changing("Take out the commands with `memoryd hook` by hand."):
            path = known.path(None) if checkout is None else known.path_in(checkout)
            changed = hosts.remove(known, path)
        say(f"{path} {'names memoryd no more' if changed else 'does not name memoryd'}.")


@hooks.command()
def status(json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """Show which coding agents have memory, and how many memories wait to be stored. Exit code 1: something is wrong."""
    config = read_config()
    with sentences():
        try:
            state = State(state_folder())
        except OSError as fault:
            raise Failure(f"{state_folder()} cannot be used: {fault.strerror}.") from None
    scopes = [
        (host.name, scope, str(path), installed(host, path))
        for host in HOSTS.values()
        for scope, path in (("user", host.path(None)), ("project", host.path(Path.cwd())))
    ]
    waits = {"waiting": state.waiting(), "dropped": state.dropped(), "refused": state.refused()}
    faults = [] if config else [f"{config_file()} is missing: memoryd hooks install"]
    if config and (why := _unreachable(str(config.get("url")))):
        faults.append(f"the database cannot be used, and new memories wait: {why}")
    if waits["dropped"]:
        faults.append(
            f"the spool was full, and {waits['dropped']} memories are lost: delete {state_folder()}/dropped"
        )
    if waits["refused"]:
        faults.append(f"the database refused {waits['refused']} memories: look at {state_folder()}/refused")
    if json:
        as_json(
            {
                "agent": config.get("agent"),
                "hosts": [{"host": h, "scope": s, "file": f, "installed": i} for h, s, f, i in scopes],
                **waits,
                "last_error": state.last_error(),
                "wrong": faults,
            }
        )
    else:
        table(
            ["host", "settings", "installed", "file"],
            [[h, s, "yes" if i else "no", f] for h, s, f, i in scopes],
        )
        say(f"Agent {config.get('agent', 'unknown')}; {waits['waiting']} memories wait to be stored.")
        if error := state.last_error():
            say(f"The last error of a hook: {error}")
        for each in faults:
            remark(each)
    if faults:
        raise typer.Exit(1)


@hooks.command()
def rules(
    forget: str | None = typer.Option(None, metavar="ID", help="Forget this rule."),
    edit: str | None = typer.Option(None, metavar="ID", help="Replace this rule by TEXT."),
    text: str | None = typer.Argument(None, help="With --edit: the new rule."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the rules of the project in this folder that people stated in prompts; edit or forget one."""
    from plugins.hooks import memory
    from plugins.hooks.privacy import cleaned, tells_secret
    from plugins.hooks.standing import LONGEST_RULE

    with sentences():
        if text is not None and tells_secret(cleaned(text, LONGEST_RULE)):
            raise Failure(
                "This rule contains a secret, so it is not remembered. Say where the secret is kept."
            )
        given = forget if edit is None else edit
        blank = any(each is not None and is_blank(each) for each in (given, text))
        if (edit is None) != (text is None) or None not in (edit, forget) or blank:
            raise Misuse("Give --edit ID TEXT, or --forget ID, or neither.")
        config = _config()
        agent, project = str(config["agent"]), project_of(root_of(str(Path.cwd())))
        try:
            connection = connect(str(config["url"]), config.get("libpq"))
            known = memory.rules(connection, agent, project)
            if given is not None:
                which = [one for one, _, _ in known if one.startswith(given)]
                if len(which) != 1:
                    raise Failure(
                        f"{len(which)} rules of {project} have the id {one_line(given, 60)}: memoryd hooks rules"
                    )
                if text is not None:
                    memory.replace_rule(connection, agent, project, which[0], one_line(text, LONGEST_RULE))
                else:
                    connection.rows(memory.FORGET, which[0])
                known = memory.rules(connection, agent, project)
        except (Refusal, Unreachable) as error:
            raise Failure(f"The database cannot be used: {error}") from None
    if json:
        as_json([{"id": one, "since": day, "rule": rule} for one, day, rule in known])
    elif known:
        table(["id", "since", "rule"], [[one[:8], day, rule] for one, day, rule in known])
    else:
        say(f"There are no rules of {project}. Say one in a prompt: always run tests with make test")


@hooks.command()
def mcp() -> None:
    """Serve MCP to the coding agent in this folder, with the hooks' database and agent and the folder's project.

    For the settings of coding agents. `memoryd mcp` serves any agent and database.
    """
    from daemon.settings import DATABASES, NAMED_BY
    from plugins.mcp.cli import Tools
    from plugins.mcp.cli import mcp as serve

    with sentences():
        config = _config()
        which = project_of(root_of(str(Path.cwd())))
        for name in [
            name for name in os.environ if name.upper() in {*DATABASES, NAMED_BY, "MEMORYD_DATABASE"}
        ]:
            del os.environ[name]
        os.environ["DATABASE_URL"] = config["url"]
        os.chdir("/")  # memoryd reads no file of the project
    serve(
        agent=config["agent"],
        user=None,
        org=None,
        project=which,
        tools=Tools.ALL,
        http=False,
        port=0,
        time_limit=30.0,
    )


def _checkout(project: bool, own: bool) -> Path | None:
    """The project's folder; None: the user's own settings."""
    if project == own:
        raise Misuse("Say whose settings: --user for your own, --project for those in this folder.")
    return Path.cwd() if project else None


def _config() -> dict[str, Any]:
    """The configuration. Raises Failure where it has no database or no agent."""
    config = read_config()
    if not config.get("url") or not config.get("agent"):
        raise Failure(f"{config_file()} does not say which database: memoryd hooks install")
    return config


@contextmanager
def _changing(by_hand: str) -> Iterator[None]:
    """While settings are changed. Raises Failure where they cannot be, with what to do `by_hand`."""
    try:
        yield
    except Unreadable as fault:
        raise Failure(f"{fault}: nothing was changed. {by_hand}") from None
    except OSError as fault:
        raise Failure(f"{fault.filename} cannot be written: {fault.strerror}. Nothing was changed.") from None


def _address() -> str:
    """The URL of the database in the settings; they read no `.env` that nobody named."""
    from daemon.settings import NAMED_BY, no_folder_believed

    with no_folder_believed():
        settings = settings_or_exit(quiet=True)
    if settings.database_urls is not None:
        raise Misuse("MEMORYD_DATABASE_URLS names several databases: say which one, with MEMORYD_DATABASE.")
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    from plugins.embedded.server import EmbeddedPostgres
    from plugins.embedded.sharing import missing

    folder = settings.data_dir.expanduser().resolve()
    if not (folder / "pg").exists():
        raise Failure(f"{missing(folder)} No .env was read: {NAMED_BY}=.env names one.")
    server = EmbeddedPostgres(folder, port=settings.postgres_port)
    if "data_dir" not in settings.model_fields_set and not server.is_running():
        raise Failure(
            f"No memoryd runs in {folder}. Start `memoryd run` there, or name another folder: MEMORYD_DATA_DIR"
        )
    return server.socket_url


def _named(url: str) -> str:
    """The URL of a database without its password."""
    parts = urlsplit(url)
    host = parse_qs(parts.query).get("host", [parts.hostname or "local"])[0]
    return f"{host}{parts.path}"


def _unreachable(url: str) -> str:
    """Why a database cannot be used; "" where it can."""
    from daemon.settings.databases import readable

    try:
        readable(url, f"The database in {config_file()}")
        connect(url, None).rows("select count(*) from (select from agent_memory limit 1) m")
    except (Unreachable, Refusal, ValueError) as error:
        return one_line(str(error), 300)
    return ""


def _program() -> str:
    beside = Path(sys.executable).with_name("memoryd")
    return str(beside) if beside.exists() else "memoryd"


def _by_hand(host: HostName, checkout: Path | None) -> str:
    known = HOSTS[host]
    if known.module:
        return "Give that file another name."
    return "Add by hand, for each event: " + "; ".join(
        command_of(known, event, program=_program(), shared=checkout is not None) for event in known.events
    )


def _write_config(path: Path, config: dict[str, str | None]) -> None:
    """Writes the configuration. It may hold a password, so only its owner can read it."""
    from providers.regular_files import write_private

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, json_module.dumps(config, indent=2).encode(), replace=True)
