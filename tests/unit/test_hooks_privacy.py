"""What the hooks of coding agents leave out of what they send."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.hooks.privacy import Rules, cleaned

LETTERS = "aB3dEfGh" * 6


@pytest.mark.parametrize(
    "text",
    [
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "MY_APP_API_KEY=abcdef12345", "PGPASSWORD=hunter", "DB_PASS=s3cret",
        "export GITHUB_ACCESS_TOKEN=abcd-efgh", "clientSecret: 'abc def'", "SECRET_KEY = 'django-insecure'",
        "authToken=abc123def",
        "mysql -u root -pHunter2 db", "curl -u ann:hunter2 https://x", "psql --password hunter2", "--token=abcdef",
        "Authorization: Basic YWxhZGRpbg==", "Cookie: session=abcdef", "the password is: hunter22", "my password is hunter22x",
        "rediss://:pw123@host/0", "postgres://u:p@ss@host/db", "postgres://u:p@host", "password=pa$$word123",
        f"xapp-1-{LETTERS}", f"ya29.{LETTERS}", f"GOCSPX-{LETTERS}", f"whsec_{LETTERS}", f"gsk_{LETTERS}", f"hvs.{LETTERS}",
        f"sk-proj-{LETTERS}", f"ghp_{LETTERS}", f"dckr_pat_{LETTERS}", "123456789:AAF" + "a" * 32,
        f"https://hooks.slack.com/services/T0/B0/{LETTERS}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{LETTERS}\n{LETTERS}", f"AccountKey={LETTERS};x",
    ],
)  # fmt: skip
def test_a_credential_is_left_out(text: str) -> None:
    shown = cleaned(f"Use this: {text}", 1000)
    assert "[secret]" in shown
    for part in (
        "unter",
        "s3cret",
        "abcd",
        "abc123",
        "wJalr",
        "django",
        "YWx",
        "pw123",
        "p@",
        "pa$$",
        LETTERS[:20],
        "a" * 32,
    ):
        assert part not in shown


@pytest.mark.parametrize(
    "text",
    [
        "The token is expired, so the refresh token is requested", "token: Optional[str]", "password: required",
        "max_token: 4096000", "pwd: /home/me/project1", "api key = settings.api_key", "sk-learn-pipeline-with-scaler",
        "The token is stored in Vault", "rotate the API key monthly", "see https://host:8080/a@b", "ann@example.com: hello",
        "the secret of 3 good tests", "git push -u origin main", "key: value", "12:30:45 the passengers left",
    ],
)  # fmt: skip
def test_ordinary_words_stay(text: str) -> None:
    assert cleaned(text, 1000) == text


def test_files_are_hidden_by_any_part_of_their_path(tmp_path: Path) -> None:
    (tmp_path / ".memorydignore").write_text("\ufefffixtures/\n*.sqlite\nsrc/private\n")
    rules = Rules(str(tmp_path))
    for hidden in (
        "fixtures/a/b.json",
        "data/A.SQLITE",
        "src/private/x.py",
        ".env",
        "a/.ENV.local",
        "Secrets.yml",
        "./fixtures/x",
    ):
        assert rules.hides(hidden), hidden
    for shown in ("src/main.py", "environment.py", "private/x.py", "docs/fixtures.md"):
        assert not rules.hides(shown), shown
    for command in (
        "cat @.env",
        "x `cat .env`",
        "scp host:.env .",
        "cp {a,.env} b",
        "cat ${X:-c.sqlite}",
        "a=.env",
    ):
        assert rules.hides_in(command), command
    for everything in ("*", "/*", "**", "./*"):
        (tmp_path / ".memorydignore").write_text(everything)
        assert Rules(str(tmp_path)).everything
