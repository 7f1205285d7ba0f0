"""`memoryd hooks`: what it writes into the settings of coding agents, and leaves alone."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from daemon.cli.app import app
from plugins.hooks.projects import project_of, root_of
from tests.support.repository import ROOT

URL = "postgresql://me:hunter2@127.0.0.1:1/memory"
FILES = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "cursor": ".cursor/hooks.json",
    "gemini": ".gemini/settings.json",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home folder, and a project to be in."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", URL)
    return tmp_path


def hooks(*arguments: str) -> Result:
    """The command's end."""
    return CliRunner().invoke(app, ["hooks", *arguments])


def commands(settings: Any) -> list[str]:
    """All commands that settings name, of either form."""
    found = []
    for entries in settings["hooks"].values():
        for entry in entries:
            found += [one["command"] for one in entry.get("hooks", [entry])]
    return found


@pytest.mark.parametrize("host", FILES)
def test_what_others_have_in_the_settings_stays(home: Path, host: str) -> None:
    path = home / FILES[host]
    path.parent.mkdir()
    mine: dict[str, Any] = {"command": "say 'done ★'"}
    event = "stop" if host == "cursor" else "Stop"
    entry = mine if host == "cursor" else {"hooks": [{"type": "command"} | mine]}
    before = json.dumps(
        {"version": 1, "model": "x", "hooks": {event: [entry], "other": []}}, indent=4, ensure_ascii=False
    )
    path.write_text(before)
    path.chmod(0o640)
    assert hooks("install", host, "--user").exit_code == 0
    written = path.read_text()
    assert "★" in written
    assert [c for c in commands(json.loads(written)) if "memoryd hook " not in c] == [mine["command"]]
    # Again, also by another installation of memoryd: each event has one command of ours.
    path.write_text(re.sub(r"[^\s\"]*/memoryd hook", "/opt/old/bin/memoryd hook", written))
    assert hooks("install", host, "--user").exit_code == 0
    assert path.read_text() == written
    assert "named memoryd already" in hooks("install", host, "--user").output
    assert hooks("remove", host, "--user").exit_code == 0
    assert path.read_text() == before
    assert path.stat().st_mode & 0o777 == 0o640
    assert "does not name memoryd" in hooks("remove", host, "--user").output


@pytest.mark.parametrize("host", FILES)
def test_settings_of_a_project_hold_nothing_of_this_machine(home: Path, host: str) -> None:
    assert hooks("install", host, "--project", "--agent", "gardener").exit_code == 0
    written = (home / "project" / FILES[host]).read_text()
    assert "hunter2" not in written
    assert str(home) not in written
    for command in commands(json.loads(written)):
        # Who has not installed memoryd is not bothered.
        ended = subprocess.run(
            ["/bin/sh", "-c", command], env={"PATH": "/nowhere"}, check=True, capture_output=True
        )
        assert ended.stdout == ended.stderr == b""
    config = home / ".config/memoryd/hooks.json"
    assert json.loads(config.read_text())["url"] == URL
    assert json.loads(config.read_text())["agent"] == "gardener"
    assert config.stat().st_mode & 0o777 == 0o600
    assert hooks("remove", host, "--project").exit_code == 0
    left = home / "project" / FILES[host]
    assert not left.exists()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ('{\n  // mine\n  "hooks": {}\n}', "has comments"),
        ('{"hooks": ', "is not JSON"),
        ("[1]", "has another form"),
        ('{"hooks": {}, "model": "x", "hooks": {"Stop": []}}', "stands twice"),
        ('{"model": "\\ud800"}', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"hooks": {"Stop": 7}}', "has another form"),
        (b"\xff\xfe\x00", "is not a text"),
        (None, "cannot be written"),
    ],
)
@pytest.mark.parametrize("verb", ["install", "remove"])
def test_settings_that_cannot_be_changed_are_left_as_they_are(
    home: Path, verb: str, settings: str | bytes | None, why: str
) -> None:
    path = home / FILES["claude-code"]
    if settings is None:
        path.mkdir(parents=True)
    else:
        path.parent.mkdir()
        path.write_bytes(settings if isinstance(settings, bytes) else settings.encode())
    ended = hooks(verb, "claude-code", "--user")
    assert ended.exit_code == 1
    assert why in ended.stderr.replace("\n", " ")
    if settings is not None:
        assert path.read_bytes() == (settings if isinstance(settings, bytes) else settings.encode())


def test_whose_settings_are_meant_must_be_said(home: Path) -> None:
    for verb in ("install", "remove"):
        for wrong in ((), ("--user", "--project")):
            ended = hooks(verb, "codex", *wrong)
            assert (ended.exit_code, ended.stdout) == (2, "")
            assert "--user for your own" in ended.stderr
    assert hooks("install", "vim", "--user").exit_code == 2
    assert not (home / ".config").exists()


def test_the_status_says_what_is_wrong(home: Path) -> None:
    ended = hooks("status", "--json")
    assert ended.exit_code == 1
    assert "memoryd hooks install" in json.loads(ended.stdout)["wrong"][0]
    hooks("install", "codex", "--user")
    ended = hooks("status", "--json")
    told = json.loads(ended.stdout)
    assert (ended.exit_code, told["agent"], told["waiting"]) == (1, "coding", 0)
    [why] = told["wrong"]
    assert "the database cannot be used" in why
    assert "hunter2" not in ended.output
    assert [h["host"] for h in told["hosts"] if h["installed"]] == ["codex"]
    state = home / ".local/state/memoryd/hooks"
    (state / "spool/0-x.json").touch()
    (state / "dropped").write_bytes(b"..")
    ended = hooks("status")
    assert ended.exit_code == 1
    assert "1 memories wait" in ended.stdout
    assert "2 memories are lost" in ended.stderr
    # Its own words in a list of what it may do are none of ours.
    settings = home / FILES["claude-code"]
    settings.parent.mkdir()
    settings.write_text('{"permissions": {"allow": ["Bash(memoryd hook Stop claude-code)"]}}')
    assert "yes" not in hooks("status").stdout.splitlines()[1]


@pytest.mark.parametrize(
    "origin",
    [
        "git@Host.example:team/api.git",
        "https://me:hunter2@host.example/team/api.git/",
        "ssh://git@host.example/team/api",
    ],
)
def test_a_project_is_the_repository_that_it_was_cloned_from(tmp_path: Path, origin: str) -> None:
    checkout, second = tmp_path / "api", tmp_path / "second"
    (checkout / "src").mkdir(parents=True)
    (checkout / ".git/worktrees/second").mkdir(parents=True)
    assert project_of(root_of(str(checkout / "src"))) == str(checkout)
    (checkout / ".git/config").write_text(
        "[core]\n\tbare = false\n"
        '[remote "upstream"]\n\turl = https://host.example/other/api\n'
        f'[remote "origin"]\n\tfetch = +refs/heads/*\n\turl = {origin}\n'
    )
    # A further worktree, as git makes it.
    second.mkdir()
    (second / ".git").write_text(f"gitdir: {checkout}/.git/worktrees/second\n")
    (checkout / ".git/worktrees/second/commondir").write_text("../..\n")
    for folder in (checkout / "src", second):
        assert project_of(root_of(str(folder))) == "host.example/team/api"
    assert project_of(root_of(str(tmp_path / "none"))) == str(tmp_path / "none")


def test_the_plugin_has_the_same_hooks(home: Path) -> None:
    plugin = ROOT / "clients/claude-code"
    hooks("install", "claude-code", "--project")
    installed = json.loads((home / "project" / FILES["claude-code"]).read_text())
    assert json.loads((plugin / "hooks/hooks.json").read_text())["hooks"] == installed["hooks"]
    [server] = json.loads((plugin / ".mcp.json").read_text())["mcpServers"].values()
    assert CliRunner().invoke(app, [*server["args"], "--help"]).exit_code == 0
    [listed] = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text())["plugins"]
    assert (ROOT / listed["source"]).resolve() == plugin
    head = (plugin / "skills/memory/SKILL.md").read_text().split("---")[1]
    assert re.search(r"^name: memory$", head, re.MULTILINE)
    assert len(re.findall(r"^description: (.{80,1024})$", head, re.MULTILINE)) == 1


def test_commands_of_others_that_name_memoryd_stay(home: Path) -> None:
    path = home / FILES["claude-code"]
    path.parent.mkdir()
    others = ["echo 'run no memoryd hook Stop codex by hand' && ./x", "/opt/memoryd/other hook Stop codex",
              "memoryd hook Stop claude-code; ./backup.sh"]  # fmt: skip
    path.write_text(
        json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": one} for one in others]}]}})
    )
    assert hooks("install", "claude-code", "--user").exit_code == 0
    assert hooks("remove", "claude-code", "--user").exit_code == 0
    assert commands(json.loads(path.read_text())) == others


def test_nothing_that_a_checkout_prepared_is_followed(home: Path) -> None:
    mine = home / ".bashrc"
    mine.write_text("mine")
    folder = home / "project/.claude"
    folder.mkdir()
    for name in ("settings.json.memoryd", "settings.json.tmp"):
        (folder / name).symlink_to(mine)
    assert hooks("install", "claude-code", "--project").exit_code == 0
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("host", FILES)
@pytest.mark.parametrize("kind", ["file", "folder", "nowhere", "pipe"])
def test_settings_of_a_project_are_changed_through_no_link(home: Path, host: str, kind: str) -> None:
    file, mine = home / "project" / FILES[host], home / "mine/settings.json"
    mine.parent.mkdir()
    if kind == "folder":
        mine = mine.with_name(file.name)
        file.parent.symlink_to(mine.parent)
    else:
        file.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind in ("file", "nowhere"):
        file.symlink_to(mine)
    if kind != "nowhere":
        mine.write_text("{}")
    for command in ("install", "remove"):
        refused = hooks(command, host, "--project")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert (
            "it is not a file" in refused.stderr.replace("\n", " ")
            if kind == "pipe"
            else "is a link" in refused.stderr
        )
    assert [(path, path.read_text()) for path in mine.parent.iterdir()] == (
        [] if kind == "nowhere" else [(mine, "{}")]
    )


def test_a_data_folder_of_the_project_is_no_database_unless_its_server_runs(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL")
    project = home / "project"
    (project / ".memoryd/pg").mkdir(parents=True)
    (project / ".memoryd/port").write_text("54329\n")
    evil = project / "evil.example"
    evil.mkdir()
    with socket.socket(socket.AF_UNIX) as another, socket.socket(socket.AF_UNIX) as mine:
        another.bind(str(home / "s"))
        another.listen()
        (evil / ".s.PGSQL.1").symlink_to(home / "s")
        mine.bind(f"{home}/.s.PGSQL.1")
        for folder in ("evil.example", str(evil), str(home)):
            pid = f"1\n{project}/.memoryd/pg\n0\n1\n{folder}\nlocalhost\n0 0\nready\n"
            (project / ".memoryd/pg/postmaster.pid").write_text(pid)
            refused = hooks("install", "codex", "--user")
            assert refused.exit_code == 1, refused.output
            assert "No memoryd runs in" in refused.stderr.replace("\n", " ")
    assert not (home / ".config/memoryd/hooks.json").exists()


def test_the_first_database_stays_until_another_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "127.0.0.1/memory" in hooks("install", "codex", "--user", "--agent", "gardener").output
    monkeypatch.delenv("DATABASE_URL")
    (home / "project/.env").write_text(
        "DATABASE_URL=postgresql://evil@attacker.example/db\nMEMORYD_POOL_SIZE=wrong\n"
    )
    shown = hooks("install", "claude-code", "--project")
    assert shown.exit_code == 0, shown.output
    assert "agent gardener, in the database 127.0.0.1/memory" in shown.stdout
    config = json.loads((home / ".config/memoryd/hooks.json").read_text())
    assert (config["url"], config["agent"]) == (URL, "gardener")
    (home / "project/.env").unlink()
    monkeypatch.setenv("DATABASE_URL", "postgresql://me@127.0.0.2:1/other")
    shown = hooks("install", "claude-code", "--user")
    assert "127.0.0.2/other" in shown.stdout
    assert "each event would be stored twice" in shown.stderr.replace("\n", " ")
