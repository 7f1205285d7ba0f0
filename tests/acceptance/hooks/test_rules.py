"""What a prompt states for good is a rule of the project: kept, given to later sessions, corrected, forgotten."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import asyncpg
import pytest

from plugins.hooks.standing import rules_in
from tests.support.processes.coding_agent import CONCLUDED, CodingAgent

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMIT = 15.0
"""Hooks are not cut off on a busy machine."""

PROMPTS = json.loads(Path(__file__).with_name("prompts.json").read_text(encoding="utf-8"))
"""Sets of prompts: ours came before the rules, unseen and others' from people who had not seen the code; near: nearly rules.

The shipped weights were learned from these, too; benchmarks/talk/rules.py measures each with weights of the others."""
HOLD = "select content from agent_memory where agent_id = $1 and superseded_by is null order by content"


async def rules(claude: CodingAgent, *arguments: str, folder: Path | None = None) -> tuple[int, str]:
    """How `memoryd hooks rules` ends in the project, or in another folder, and what it says."""
    process = await claude.command("hooks", "rules", *arguments, folder=folder)
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def holding(db: asyncpg.Connection, agent: str) -> list[str]:
    """The rules that hold."""
    return [row["content"] for row in await db.fetch(HOLD, agent)]


@pytest.mark.parametrize(("whose", "least"), [("ours", 1.0), ("others", 0.6), ("unseen", 0.9), ("near", 0.9)])
async def test_rules_are_told_from_ordinary_prompts(whose: str, least: float) -> None:
    ordinary, rules = PROMPTS[whose]["ordinary"], PROMPTS[whose]["rules"]
    assert len(ordinary) == 60
    wrong = [prompt for prompt in ordinary if rules_in(prompt)]
    assert len(wrong) <= 1, wrong
    right = [
        each
        for each in rules
        if any(rule in each["rule"] or each["rule"] in rule for rule in rules_in(each["prompt"]))
    ]
    assert len(right) >= least * len(rules), [each["prompt"] for each in rules if each not in right]


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("we don't use jest any more", ["we don't use jest any more"]),
        ("amounts are integers, in cents", ["amounts are integers, in cents"]),
        ("we're on kotest here. redo the test", ["we're on kotest here"]),
        ("dont commit yet", []),
        (
            "Our rules:\n- always use pnpm\n- never use npm\nThanks,\nAnn",
            ["always use pnpm", "never use npm"],
        ),
        ("Always use pnpm.\nNever use npm.\nThanks,\nAnn", []),
        ("the staging db is down", []),
        ("Here is CLAUDE.md, shorten it:\nAlways run tests with tox.", []),
        # What stands between the first and the last sentences of a very long prompt is not read.
        ("fix it. " * 2_000 + "we use pnpm here. " + "fix it. " * 2_000, []),
        ("a/" * 10_000, []),
        ("use \ud800 \x00", []),
    ],
)
async def test_a_rule_need_not_say_that_it_is_one(prompt: str, found: list[str]) -> None:
    assert rules_in(prompt) == found


@pytest.mark.parametrize(
    "rule",
    [
        "always run go test ./... before pushing",
        "run the tests with go test ./...",
        "the build is bazel build //...",
        "never use abbreviations, e.g. usr, in names",
        "columns are in snake_case (i.e. user_id), never camelCase",
        "immer die Tests z. B. mit make test laufen lassen",
        "prices are incl. VAT",
        ".env files live in vault",
    ],
)
async def test_a_rule_is_kept_whole(rule: str) -> None:
    assert rules_in(f"remember: {rule}. thanks") == [rule]


@pytest.mark.parametrize(
    ("prompt", "states"),
    [
        ("Be more concise from now on", True),
        ("please reply in english from now on", True),
        ("antworte bitte auf Deutsch ab jetzt", True),
        ("responde en español de ahora en adelante", True),
        ("tutoie-moi désormais", True),
        ("ok, I will answer in English from now on", False),
        ("it works from now on", False),
        ("can we use yarn from now on?", False),
    ],
)
async def test_from_now_on_may_stand_at_the_end(prompt: str, states: bool) -> None:
    assert bool(rules_in(prompt)) is states


async def test_a_rule_is_given_to_a_later_session(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    for prompt in (
        "always run tests with uv run pytest, never bare pytest",
        "our migrations live in db/migrate, not alembic",
        "remember: the staging database is called zebra9",
        "from now on write commit messages in german",
    ):
        assert "Remembered as a rule of this project" in await claude.say(prompt)
    rows = await db.fetch("select kind, ttl_hours from agent_memory where agent_id = $1", agent)
    assert [tuple(row) for row in rows] == [("fact", None)] * 4
    begun = await claude.tell("SessionStart", session_id="s2", source="startup")
    text = begun["hookSpecificOutput"]["additionalContext"]
    assert all(rule in text for rule in await holding(db, agent))
    assert "uv run pytest" in await claude.say("please run the tests of the parser", "s2")
    assert "zebra9" in await claude.say("connect to the staging database", "s2")
    # Said again it is the same rule.
    await claude.say("Always run tests with uv run pytest, never bare pytest.", "s2")
    assert len(await holding(db, agent)) == 4


async def test_the_rules_that_fit_a_prompt_best_are_given(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    for rule in (
        "never mock the clock in tests of billing",
        "always run tests in parallel",
        "never skip tests",
        "our tests live in spec/",
        "always name tests after issues",
        "never print from tests",
        "we use pytest for tests, not unittest",
    ):
        await claude.say(rule)
    assert len(await holding(db, agent)) == 7
    told = await claude.say("write tests of billing, with the clock stopped", "s2")
    assert told.count("\n- ") == 5
    assert "mock the clock" in told


async def test_no_rule_fits_a_prompt_by_function_words(claude: CodingAgent) -> None:
    await claude.say(
        "remember: a release is cut on the last Monday of a month, so it can be tested by all of us"
    )
    await claude.say("recuerda: la base de datos se levanta con docker compose", "s1")
    assert not await claude.say(
        "so what is it that all of you do on a line by itself, can I see a bit of it", "s2"
    )
    assert not await claude.say("arregla la suma de los cupones con descuento", "s2")
    assert "last Monday" in await claude.say("when is the next release?", "s2")


async def test_a_later_rule_on_the_same_thing_replaces_the_earlier(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    await claude.say("from now on write commit messages in german")
    await claude.say("always use pnpm")
    told = await claude.say("from now on write commit messages in english", "s2")
    assert "It replaces the earlier rule: write commit messages in german" in told
    assert "- write commit messages in german" not in told
    assert await holding(db, agent) == ["always use pnpm", "write commit messages in english"]
    assert "replaces" in await claude.say("from now on write commit messages in german", "s3")
    assert await holding(db, agent) == ["always use pnpm", "write commit messages in german"]


async def test_of_two_sessions_that_state_opposite_rules_at_once_one_wins(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    await asyncio.gather(
        *(
            claude.say(f"in this repo we use {what} to indent", f"s{n}")
            for n, what in enumerate(("tabs", "spaces"))
        )
    )
    assert len(await holding(db, agent)) == 1


@pytest.mark.parametrize(
    ("said", "secret"),
    [
        ("remember: the password is hunter2-zebra-9, use it always", "hunter2"),
        ("remember: the password is sunflower", "sunflower"),
        ("remember: the passphrase of the backup is correct horse battery staple", "battery"),
        ("Fix the build. Merk dir: das Passwort von staging ist sonnenblume.", "sonnenblume"),
        ("记住,密码是向日葵", "向日葵"),
        ("from now on log in as admin with password letmein", "letmein"),
        ("always connect as deploy with the password sunflower", "sunflower"),
        ("retiens : identifiant ann, mdp Tiger77x", "Tiger77x"),
        ("merk dir: Zugang ann, Kennwort Tiger77x", "Tiger77x"),
        ("记住:账号 ann 口令 Tiger77x", "Tiger77x"),
        ("remember: the PIN for the door is 4711", "4711"),
        ("remember that the wifi code is Tiger77x", "Tiger77x"),
        ("remember: the staging login is admin / hunter22", "hunter22"),
        ("remember: our credentials are root / sunflower", "sunflower"),
        ("remember the api key sk-ant-api03-abcdefghijklmnop1234567890", "abcdefghijklmnop"),
    ],
)
async def test_a_rule_with_a_secret_is_refused(
    said: str, secret: str, claude: CodingAgent, db: asyncpg.Connection, agent: str, url: str
) -> None:
    told = await claude.say(said)
    assert "not remembered: it contains a secret" in told
    assert secret not in told
    assert await holding(db, agent) == []
    # Nor is it in what is remembered of the turn.
    await claude.tell("Stop", session_id="s1", last_assistant_message=CONCLUDED)
    assert [secret in content for content in await holding(db, agent)] == [False]
    assert not await db.fetchval("select count(*) from memory_queries where task_keywords::text ~ $1", secret)
    past = claude.home / "past.jsonl"
    line = {"sessionId": "p", "cwd": str(claude.project), "timestamp": "2026-03-01T00:00:00Z", "type": "user"}
    past.write_text(json.dumps(line | {"message": {"role": "user", "content": said}}) + "\n")
    process = await claude.command("import", str(past), "--from", "claude-code", "--json", DATABASE_URL=url)
    report = json.loads((await process.communicate())[0])
    assert {"what": "rule", "reason": "it contains a secret", "count": 1} in report["left_out"]


async def test_a_rule_may_say_where_a_secret_is_kept(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    await claude.say("remember: the password is stored in the vault. Remember: the token is required")
    kept = ["the password is stored in the vault", "the token is required"]
    assert await holding(db, agent) == kept
    one = json.loads((await rules(claude, "--json"))[1])[0]["id"]
    assert (await rules(claude, "--edit", one, "the token is sunflower"))[0] == 1
    assert await holding(db, agent) == kept


@pytest.mark.parametrize(
    "pasted",
    [
        "what does this mean?\n```\nalways run make lint\n```",
        'translate: "never push to main"',
        "read this\n"
        + "Contributing\n" * 5
        + "Always sign your commits.\n"
        + "More text\n" * 9
        + "is it good?",
        "> always use tabs\nwho wrote that",
        "翻译成英文:永远不要直接推送到 main",
        "Please improve my prompt.\n\nYou are a pirate. Always answer in pirate language.",
        "here is our CONTRIBUTING.md:\n\nAlways run make lint.\nNever push to main.\n\nis it fine?",
        "# Contributing\n\nAlways run make lint.\nNever push to main.",
        "<file name=CONTRIBUTING.md>\nAlways run make lint.\n</file>\nshorten it",
        "here's the file: Always run make lint.\nNever push to main.",
        "here's the file\n\nAlways run make lint.\nNever push to main.\n\nis it fine?",
        "CONTRIBUTING.md\nAlways run make lint.\nNever push to main.",
        "can you shorten this?\n\n`docs/CONTRIBUTING.md`\nAlways run make lint.\nNever push to main.\n\nthanks",
        ".cursorrules\n\nAlways use TypeScript.\nNever use any.",
        "---\nglobs: *.ts\nalwaysApply: true\n---\nAlways use TypeScript.",
        "You are a code reviewer.\nAlways answer in German.\n\nimprove this system prompt",
        "Always run make lint.\nNever push to main.\n^ what is this about",
        "see CONTRIBUTING.md below\n\nAlways run make lint.\nNever push to main.",
        "From: Bob <bob@acme.example>\nSubject: rules\n\nAlways run make lint.\nNever push to main.",
        "Hi all,\nplease always run make lint before you push.\nCheers,\nBob\n\nwrite a polite answer",
        "Bob: always run make lint before you push\nAlice: we're on kotest here",
        "[10:32] bob: always run make lint\n[10:33] alice: never push to main",
        "bob  10:32 AM\nalways run make lint before you push",
        "diff --git a/a.md b/a.md\nAlways run make lint.",
        "hier ist die Datei\n\nimmer make lint laufen lassen\nnie auf main pushen\n\nkürze sie",
        "Von: Bob\nBetreff: Regeln\n\nIhr müsst immer make lint laufen lassen.",
        "aquí está el archivo\n\nnunca hagas push a main\n\nresúmelo",
        "voici le fichier\n\nne jamais pousser sur main\n\nraccourcis-le",
        "文件如下\n永远不要推送到 main",
        "$ cat CONTRIBUTING.md\nAlways use pnpm.\nNever push to main.",
        "AGENTS.md currently says\n\nAlways use pnpm.\nNever push to main.\n\nupdate it",
        "Rewrite the following so that it sounds nicer\n\nAlways use pnpm. Never push to main.",
        "帮我翻译这段话\n\n永远不要推送到 main",
    ],
)
async def test_what_is_pasted_or_quoted_is_no_rule(pasted: str) -> None:
    assert rules_in(pasted) == []


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        (
            "our rules:\nalways run make lint\nnever push to main",
            ["always run make lint", "never push to main"],
        ),
        (
            "rules for this repo:\n\nAlways use pnpm.\nNever push to main.",
            ["Always use pnpm", "Never push to main"],
        ),
        ("Regeln:\nimmer pnpm nutzen\nnie auf main pushen", ["immer pnpm nutzen", "nie auf main pushen"]),
        (
            "Here are our rules:\n- always run tests with tox\n2. never push to main",
            ["always run tests with tox", "never push to main"],
        ),
        (
            "always run make lint\nour tests live in tests/api",
            ["always run make lint", "our tests live in tests/api"],
        ),
        ("update CONTRIBUTING.md\n\nalways squash before merging", ["always squash before merging"]),
        ("hey,\nalways use pnpm in this repo\nthanks", ["always use pnpm in this repo"]),
        ("always use pnpm\n\nCONTRIBUTING.md\nNever push to main.", ["always use pnpm"]),
        ("always use pnpm\n\nreview this PR", ["always use pnpm"]),
        ("always use pnpm.\n\nis that ok for you?", ["always use pnpm"]),
        ("remember:\nthe staging database is called zebra9", ["the staging database is called zebra9"]),
    ],
)
async def test_rules_of_ones_own_may_be_a_list(prompt: str, found: list[str]) -> None:
    assert rules_in(prompt) == found


@pytest.mark.parametrize(
    "rule",
    [
        "In this repo migrations live in db/migrate",
        "In our repo the tests are in tests/api",
        "In diesem Repo liegen die Migrationen in db/migrate",
        "Bei uns liegen die Migrationen in db/migrate",
        "En este repo los tests están en tests/api",
        "Dans ce dépôt, les migrations se trouvent dans db/migrate",
        "Chez nous les migrations sont dans db/migrate",
        "在这个仓库里,测试放在 tests/api",
        "我们的 API 测试放在 tests/api",
        "这个仓库的迁移在 db/migrate 里",
        "在这个仓库里不要用 eval",
    ],
)
async def test_where_things_are_is_a_rule_in_each_language(rule: str) -> None:
    assert rules_in(rule) == [rule]


@pytest.mark.parametrize(
    "prompt",
    [
        "in this repo the tests are in a bad state",
        "in diesem Repo sind die Tests rot",
        "en este repo los tests están en rojo",
        "dans ce dépôt les tests sont dans un sale état",
        "在这个仓库里找一下测试",
        "我们的测试在 CI 里失败了",
    ],
)
async def test_how_things_are_now_is_none(prompt: str) -> None:
    assert rules_in(prompt) == []


@pytest.mark.parametrize(
    "odd",
    [
        "\n" * 20_000,
        "a\n" * 10_000,
        "hi\n" * 6_000,
        "Bob: x\n" * 2_500,
        "a" * 5_000,
        " " * 20_000,
        ("here is " + "a/" * 95 + "\n") * 100,
        ("rules for " + "a-" * 90 + ":\n") * 100,
        ("x " * 90 + "below\n") * 100,
    ],
)
async def test_an_odd_prompt_takes_no_time(odd: str) -> None:
    rules_in("once, to compile")
    began = time.process_time()
    rules_in(odd)
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ('from now on prefix branches with "bird/" please', ['prefix branches with "bird/" please']),
        ('Always write the header "Copyright Acme Ltd".', ['Always write the header "Copyright Acme Ltd"']),
        ('He said "always test first" and left.', []),
        ('"Never again" is what she said.', []),
        ("他说「好。以后都用中文」", []),
        # What may be a password is none.
        ('Always log in as admin with "Tr0ub4dor&3"', []),
        ('Remember: the wifi is "KellerGeist42"', []),
        ('Always answer "Ready?" with a number.', ["Always answer … with a number"]),
        # Blanks and quotation marks without an end are gone through once.
        ("Always answer" + " " * 1_000_000 + "in German.", ["Always answer    in German"]),
        ("Always answer in German. " + "„" * 100_000, ["Always answer in German"]),
    ],
)
async def test_a_rule_keeps_the_names_that_it_quotes(prompt: str, found: list[str]) -> None:
    assert rules_in(prompt) == found


async def test_a_person_lists_corrects_and_forgets_rules(
    claude: CodingAgent, db: asyncpg.Connection, agent: str
) -> None:
    assert "no rules" in (await rules(claude))[1]
    await claude.say("always run tests with uv run pytest")
    await claude.say("never push to main")
    listed = json.loads((await rules(claude, "--json"))[1])
    assert [each["rule"] for each in listed] == ["never push to main", "always run tests with uv run pytest"]
    one, other = (each["id"] for each in listed)
    assert "make test" in (await rules(claude, "--edit", other[:8], "always run make test"))[1]
    assert await holding(db, agent) == ["always run make test", "never push to main"]
    assert "push" not in (await rules(claude, "--forget", one))[1]
    assert await holding(db, agent) == ["always run make test"]
    ends = [
        (await rules(claude, *given))[0]
        for given in (
            ("--forget", "nothing"),
            ("--edit", other),
            ("text",),
            ("--forget", ""),
            ("--edit", "", "a"),
        )
    ]
    assert ends == [1, 2, 2, 2, 2]
    assert await holding(db, agent) == ["always run make test"]
    elsewhere = claude.project.with_name("elsewhere")
    elsewhere.mkdir()
    assert "no rules" in (await rules(claude, folder=elsewhere))[1]
