"""Settings: from the environment and .env, and one sentence for every wrong value, without secrets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemon.settings import (
    PREFIX,
    REMOVED,
    SettingsError,
    all_settings,
    load_settings,
    removed_settings,
    split_list,
    unknown_settings,
)
from plugins.executor.settings import Executor
from plugins.operate.settings import Http


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings but the test's own, in an empty working directory."""
    for name in os.environ:
        if name.upper().startswith(PREFIX) or name in ("DATABASE_URL", "OPENAI_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def told() -> list[str]:
    """The sentences about what is wrong."""
    with pytest.raises(SettingsError) as raised:
        load_settings()
    return str(raised.value).splitlines()


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("9470", "127.0.0.1:9470"), (":9470", "127.0.0.1:9470"), ("localhost:9470", "127.0.0.1:9470"), (" 0 ", "127.0.0.1:0"),
        ("0.0.0.0:9470", "0.0.0.0:9470"), ("[::1]:9470", "[::1]:9470"), ("[::]:80", "[::]:80"),
        ("10.0.0.7:65535", "10.0.0.7:65535"),
    ],
)  # fmt: skip
def test_a_port_alone_is_one_of_this_machine_only(
    monkeypatch: pytest.MonkeyPatch, given: str, taken: str
) -> None:
    monkeypatch.setenv("MEMORYD_HTTP", given)
    assert load_settings().section(Http).http == taken


@pytest.mark.parametrize(
    "given",
    [
        "on",
        "-1",
        "65536",
        "9470x",
        "\u0661",
        "*:9470",
        "example.org:9470",
        "0.0.0.0",
        "0.0.0.0:",
        "http://127.0.0.1:9470",
        "1.2.3:9470",
    ],
)
def test_what_is_no_address_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("MEMORYD_HTTP", given)
    [sentence] = told()
    assert sentence.startswith(
        f"MEMORYD_HTTP is '{given}'; it must be a port of 127.0.0.1, such as 9470, or an IP address and a port"
    )


def test_without_settings_the_defaults_apply() -> None:
    settings = load_settings()
    assert settings.model_fields_set == set()
    assert (settings.database_url, settings.data_dir, settings.embedder) == (
        None,
        Path(".memoryd"),
        "local/wordllama-256",
    )
    assert (settings.outcome_ttl_hours, settings.task_memory_ttl_hours) == (72, 2160)
    assert settings.dream_idle_hours == 6
    assert settings.notification_user_ids is False


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("POOLER", "both", "auto, direct or transaction"),
        ("POOLER", "AUTO", "auto, direct or transaction"),
        ("LOG_LEVEL", "trace", "debug, info, warning or error"),
        ("LOG_FORMAT", "xml", "auto, console or json"),
        ("NOTIFICATION_USER_IDS", "maybe", "true or false"),
        ("POOL_SIZE", "2", "a whole number from 3 to 100"),
        ("POOL_SIZE", "101", "a whole number from 3 to 100"),
        ("POOL_SIZE", "ten", "a whole number from 3 to 100"),
        ("POOL_SIZE", "3.5", "a whole number from 3 to 100"),
        ("POSTGRES_PORT", "80", "a whole number from 1024 to 65535"),
        ("POSTGRES_PORT", "70000", "a whole number from 1024 to 65535"),
        ("EMBEDDING_DIMENSIONS", "0", "a whole number from 1 to 16000"),
        ("EXECUTOR_PARALLEL", "0", "a whole number from 1 to 1000"),
        ("OUTCOME_TTL_HOURS", "0", "a whole number from 1 to 876000"),
        ("OUTCOME_TTL_HOURS", "1.5", "a whole number from 1 to 876000"),
        ("OUTCOME_TTL_HOURS", "3000000000", "a whole number from 1 to 876000"),
        ("TASK_MEMORY_TTL_HOURS", "-5", "a whole number from 1 to 876000"),
    ],
)
def test_a_wrong_value_is_reported_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, allowed: str
) -> None:
    monkeypatch.setenv(PREFIX + variable, value)
    [sentence] = told()
    assert sentence.startswith(f"MEMORYD_{variable} is '{value}'; it must be {allowed}.")


@pytest.mark.parametrize(
    ("variable", "bounds"),
    [
        ("POLL_SECONDS", "above 0 and up to 3600"),
        ("START_SECONDS", "from 0 to 3600"),
        ("SHUTDOWN_SECONDS", "from 0 to 3600"),
        ("PROVIDER_TIMEOUT_SECONDS", "above 0 and up to 3600"),
        ("EXECUTOR_TIMEOUT_SECONDS", "above 0 and up to 31536000"),
        ("COMMAND_TIMEOUT_HOURS", "above 0 and up to 876000"),
        ("DREAM_IDLE_HOURS", "above 0 and up to 876000"),
        ("QUERY_LOG_DAYS", "above 0 and up to 36500"),
    ],
)
def test_every_duration_is_bounded(monkeypatch: pytest.MonkeyPatch, variable: str, bounds: str) -> None:
    for value in ("soon", "nan", "inf", "-inf", "1e300", "-1"):
        monkeypatch.setenv(PREFIX + variable, value)
        [sentence] = told()
        assert sentence.startswith(f"MEMORYD_{variable} is '{value}'; it must be a number {bounds}.")


@pytest.mark.parametrize("variable", ["POOL_SIZE", "FACTS", "HTTP"])
def test_a_long_value_makes_no_long_sentence(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(PREFIX + variable, "x" * 5_000_000)
    [sentence] = told()
    assert len(sentence) < 1_000


def test_every_number_has_bounds() -> None:
    for name, schema in all_settings().model_json_schema(by_alias=False)["properties"].items():
        for one in schema.get("anyOf", [schema]):
            if one.get("type") in ("integer", "number"):
                assert "maximum" in one, name
                assert "minimum" in one or "exclusiveMinimum" in one, name


@pytest.mark.parametrize("value", ["klingon", "german klingon", "german,,klingon", "deutsch"])
def test_a_language_that_is_not_known_is_refused_with_those_that_are(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("MEMORYD_LANGUAGES", value)
    [sentence] = told()
    start = (
        f"MEMORYD_LANGUAGES is '{value}'; it must be names separated by commas, of these: arabic, armenian, "
    )
    assert sentence.startswith(start)
    assert ", english, estonian, " in sentence


def test_languages_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    assert split_list(load_settings().languages) == []
    monkeypatch.setenv("MEMORYD_LANGUAGES", " German, english,,german ")
    assert split_list(load_settings().languages) == ["german", "english"]


def test_all_wrong_values_are_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORYD_POOL_SIZE", "1")
    monkeypatch.setenv("MEMORYD_LOG_LEVEL", "loud")
    monkeypatch.setenv("memoryd_executor_parallel", "none")
    assert [sentence.partition(" ")[0] for sentence in told()] == [
        "MEMORYD_POOL_SIZE", "MEMORYD_LOG_LEVEL", "MEMORYD_EXECUTOR_PARALLEL",
    ]  # fmt: skip


def test_a_sentence_says_what_the_setting_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORYD_EXECUTOR_PARALLEL", "0")
    what_for = "Maximum number of commands that run at once for one agent."
    assert told() == [
        f"MEMORYD_EXECUTOR_PARALLEL is '0'; it must be a whole number from 1 to 1000. {what_for}"
    ]


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://app:hunter2@db.example/app")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hunter2")
    settings = load_settings()
    for shown in (repr(settings), str(settings), str(settings.model_dump()), settings.model_dump_json()):
        assert "hunter2" not in shown
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://app:hunter2@db.example/app"
    # Not even where it is the wrong one.
    with pytest.raises(SettingsError) as raised:
        load_settings(openai_api_key=["sk-hunter2"], database_url=["postgresql://app:hunter2@db.example/app"])
    assert "hunter2" not in str(raised.value)
    assert "a secret value" in str(raised.value)


@pytest.mark.parametrize(
    ("ours", "common", "field"),
    [
        ("MEMORYD_DATABASE_URL", "DATABASE_URL", "database_url"),
        ("MEMORYD_OPENAI_API_KEY", "OPENAI_API_KEY", "openai_api_key"),
    ],
)
def test_the_common_variable_is_used_where_ours_is_not_set(
    monkeypatch: pytest.MonkeyPatch, ours: str, common: str, field: str
) -> None:
    monkeypatch.setenv(common, "common")
    assert getattr(load_settings(), field).get_secret_value() == "common"
    monkeypatch.setenv(ours, "ours")
    assert getattr(load_settings(), field).get_secret_value() == "ours"


def test_an_empty_value_means_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    by_default = load_settings()
    for name in all_settings().model_fields:
        monkeypatch.setenv(PREFIX + name.upper(), "")
    monkeypatch.setenv("DATABASE_URL", "")
    assert load_settings() == by_default
    assert load_settings().database_url is None


def test_the_file_is_read_and_the_environment_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "\ufeff# a comment, with a mark of byte order before it\n"
        "DATABASE_URL=postgresql://file/db\n"
        "MEMORYD_POOL_SIZE=7\nMEMORYD_EXECUTOR_COMMAND='sh -c \"cat # é\"'\nMEMORYD_LOG_LEVEL=\nSOMETHING_ELSE=1\n",
        encoding="utf-8",
    )
    settings = load_settings()
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://file/db"
    assert (settings.pool_size, settings.section(Executor).executor_command, settings.log_level) == (
        7,
        'sh -c "cat # é"',
        "info",
    )
    monkeypatch.setenv("MEMORYD_POOL_SIZE", "8")
    assert load_settings().pool_size == 8
    assert load_settings(pool_size=9).pool_size == 9
    assert load_settings(pool_size=None).pool_size == 8


def test_a_wrong_value_in_the_file_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MEMORYD_POOL_SIZE=1\n", encoding="utf-8")
    assert [sentence.partition(";")[0] for sentence in told()] == ["MEMORYD_POOL_SIZE is '1'"]


def test_a_settings_file_that_is_not_utf8_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes("MEMORYD_LOG_LEVEL=grün".encode("latin-1"))
    assert told() == ["The file .env is not UTF-8. Save it as UTF-8."]


def test_settings_are_frozen() -> None:
    settings = load_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.pool_size = 5


def test_unknown_names_are_reported_with_the_nearest_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (
        "POOL_SIZES",
        "pool_size",
        "AGENT_ID",
        "TEST_POSTGRES",
        "DATABASE_URL",
        "SERVICE_HOST",
        "PORT_80_TCP",
    ):
        monkeypatch.setenv(PREFIX + name, "10")
    (tmp_path / ".env").write_text("MEMORYD_EMBEDER=local/wordllama-256\nMEMORYD_MOOD=good\nOTHERS=1\n")
    assert unknown_settings() == {
        "MEMORYD_EMBEDER": "MEMORYD_EMBEDDER",
        "MEMORYD_MOOD": None,
        "MEMORYD_POOL_SIZES": "MEMORYD_POOL_SIZE",
    }


def test_settings_that_are_gone_are_named_with_what_holds_now(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever their value is, and in the file too; they are not called misspelt as well."""
    monkeypatch.setenv("memoryd_claim_seconds", "soon")
    monkeypatch.setenv("MEMORYD_MAX_ATTEMPTS", "")
    (tmp_path / ".env").write_text("MEMORYD_AUDIT=false\nMEMORYD_HEARTBEAT_SECONDS=1\n")
    load_settings()
    assert removed_settings() == {
        "MEMORYD_AUDIT": "reads and writes are logged, but with MEMORYD_AUDIT_DAYS=0",
        "MEMORYD_CLAIM_SECONDS": "30 seconds",
        "MEMORYD_HEARTBEAT_SECONDS": "30 seconds",
    }
    assert unknown_settings() == {}


def test_no_setting_is_gone_and_there() -> None:
    assert not REMOVED.keys() & {name.upper() for name in all_settings().model_fields}
