"""What is new is stored, what is known strengthens the entry that says it; nothing that a client inserts is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.access.acting import ANN, acting_as
from tests.support.access.refusals import refused
from tests.support.content.credentials import FORMS, ORDINARY, written
from tests.support.rows import column, insert, one_row

FRIDAYS = "We deploy to production every Friday afternoon."
SECRET_STORE = "Rotate the API key monthly; the password policy asks for twelve characters."


async def note(
    connection: asyncpg.Connection, text: str, category: str = "insight", **more: object
) -> asyncpg.Record:
    """Notes it as sybil; what came of it."""
    named = "".join(f", {name} => ${n}" for n, name in enumerate(more, 4))
    return await one_row(
        connection,
        f"select * from note_knowledge($1, $2, $3{named})",
        text,
        category,
        more.pop("created_by", "sybil") if "created_by" in more else "sybil",
        *more.values(),
    )


async def entry(connection: asyncpg.Connection, which: UUID) -> asyncpg.Record:
    """A row as it stands."""
    return await one_row(connection, "select * from shared_knowledge where id = $1", which)


def row(title: str, content: str, **columns: object) -> dict[str, object]:
    """The columns of an entry."""
    return {
        "tier": "learning",
        "category": "insight",
        "title": title,
        "content": content,
        "created_by": "saber",
    } | columns


@pytest.fixture
async def service(scratch: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """The same as the role that agents have: with row-level security."""
    async with acting_as(scratch, None, role="memoryd_service"):
        yield scratch


# --- What is new, and what is known.


async def test_what_is_said_again_strengthens_the_entry_and_its_writer_is_told(
    service: asyncpg.Connection,
) -> None:
    first = await note(service, FRIDAYS, "decision", confidence="low")
    assert first["what"] == "stored"
    assert first["surprise"] == 1
    other = (await note(service, "Bread dough needs an hour of rest.", "decision"))["id"]
    again = await note(
        service,
        "Production deployments happen every Friday in the afternoon.",
        "decision",
        related_ids=[other],
    )
    assert (again["what"], again["id"], again["neighbour"]) == ("strengthened", first["id"], first["id"])
    assert again["surprise"] < 0.3
    assert "says it already" in again["reason"]
    known = await entry(service, first["id"])
    assert (known["said_again"], known["confidence"], known["related_ids"]) == (1, "medium", [other])
    assert await service.fetchval("select count(*) from shared_knowledge") == 2


@pytest.mark.parametrize(
    "said",
    [
        "We never deploy to production on Friday afternoon.",
        "We deploy to production every Monday afternoon.",
        "We deploy to production every Friday morning.",
        "We deploy to production every second Friday afternoon, says Acme.",
        "We deploy to production 3 times every Friday afternoon.",
    ],
)
async def test_what_contradicts_or_adds_a_fact_is_stored(service: asyncpg.Connection, said: str) -> None:
    known = (await note(service, FRIDAYS, "decision"))["id"]
    told = await note(service, said, "decision")
    assert told["what"] == "stored"
    assert told["surprise"] >= 0.7
    assert told["neighbour"] == known
    # Said once more, each is known.
    for text in (said, FRIDAYS):
        assert (await note(service, text, "decision"))["what"] == "strengthened"


async def test_the_threshold_is_a_setting(scratch: asyncpg.Connection) -> None:
    await note(scratch, FRIDAYS)
    await scratch.execute("insert into memoryd.settings (key, value) values ('surprise_threshold', '0')")
    assert (await note(scratch, "Production deployments happen every Friday afternoon."))["what"] == "stored"


async def test_each_category_goes_to_its_tier(service: asyncpg.Connection) -> None:
    for category, tier in {
        "principle": "core",
        "decision": "learning",
        "correction": "learning",
        "project": "working",
        "insight": "learning",
    }.items():
        made = await note(service, f"A {category} about the number {len(category)}.", category)
        assert (await entry(service, made["id"]))["tier"] == tier
    assert (await refused(service, "select note_knowledge('a', 'weather', 'sybil')"))[0] == "22023"
    own = await note(service, "It rains.", "weather", tier="working")
    assert (await entry(service, own["id"]))["category"] == "weather"


async def test_core_is_stored_however_near_it_is_but_the_same_text_once(service: asyncpg.Connection) -> None:
    first = await note(service, FRIDAYS, "principle")
    near = await note(service, "Production deployments happen every Friday afternoon.", "principle")
    assert near["what"] == "stored"
    assert near["surprise"] < 0.3
    assert (await note(service, FRIDAYS, "principle"))["id"] == first["id"]


async def test_working_notes_of_a_project_that_is_over_are_not_stored(service: asyncpg.Connection) -> None:
    project = (await note(service, "The Berlin move is planned.", "project"))["id"]
    commitment = (await note(service, "Sam packs the servers.", "commitment", related_ids=[project]))["id"]
    assert await service.fetchval("select resolve_knowledge($1)", project) == 2
    assert (await entry(service, commitment))["status"] == "resolved"
    late = await note(
        service, "The lift in the Berlin office is broken.", "commitment", related_ids=[project]
    )
    assert (late["what"], late["id"]) == ("not stored", None)
    assert "not active" in late["reason"]
    assert (await refused(service, "select resolve_knowledge(gen_random_uuid())"))[0] == "P0002"


async def test_resolved_work_is_archived_after_a_month_and_core_never(scratch: asyncpg.Connection) -> None:
    for tier, days in (("working", 31), ("working", 29), ("core", 31)):
        sql = (
            "insert into shared_knowledge (tier, category, title, content, created_by, status, resolved_at) "
        )
        await scratch.execute(
            sql + "values ($1, 'project', $2, $2, 'a', 'resolved', now() - make_interval(days => $3))",
            tier, f"{tier} {days}", days,
        )  # fmt: skip
    assert await scratch.fetchval("select memoryd.archive_resolved()") == 1
    assert await column(scratch, "select title from shared_knowledge where status = 'archived'") == [
        "working 31"
    ]


# --- Plain inserts.


async def test_a_plain_insert_is_stored_and_scored(service: asyncpg.Connection) -> None:
    first = await insert(service, "shared_knowledge", row("Deploys", FRIDAYS))
    again = await insert(service, "shared_knowledge", row("Deploys", FRIDAYS))
    near = await insert(
        service, "shared_knowledge", row("Deploys", "Production deployments happen every Friday afternoon.")
    )
    given = await insert(service, "shared_knowledge", row("Deploys", FRIDAYS, surprise_score=0.5))
    core = await insert(
        service, "shared_knowledge", row("Dough", "Bread dough rests for an hour.", tier="core")
    )
    scores = [(await entry(service, which))["surprise_score"] for which in (first, again, near, given, core)]
    assert scores[0] == 1
    assert scores[1] == 0
    assert scores[2] < 0.3
    assert scores[3] == 0.5
    assert scores[4] > 0.7


async def test_rows_of_one_statement_that_say_the_same_are_all_stored(service: asyncpg.Connection) -> None:
    await service.execute(
        "insert into shared_knowledge (tier, category, title, content, created_by) "
        "select 'learning', 'insight', 'Same', 'The same thing', 'a' from generate_series(1, 3)"
    )
    assert await column(service, "select surprise_score from shared_knowledge order by 1") == [0, 0, 1]


async def test_without_an_embedder_in_the_database_words_decide(scratch: asyncpg.Connection) -> None:
    await scratch.execute("update memoryd.settings set value = '\"openai/other\"' where key = 'embedder'")
    await note(scratch, FRIDAYS)
    assert (await note(scratch, "Production deployments happen every Friday afternoon."))[
        "what"
    ] == "strengthened"
    assert (await note(scratch, "Bread dough needs an hour of rest."))["surprise"] > 0.7


# --- Hostile.


async def test_a_note_waits_only_for_one_of_the_same_text(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """Whatever else somebody has noted in a transaction that is left open, and again with it."""
    many = [f"Fact {n} of the harbour" for n in range(120)]
    left_open = second.transaction()
    await left_open.start()
    for text in (*many, many[0]):
        await second.execute("select memoryd.lock_knowledge($1)", text)
    await connection.execute("set lock_timeout = '200ms'")
    assert (await note(connection, FRIDAYS))["what"] == "stored"
    assert (await refused(connection, "select note_knowledge($1, 'insight', 'a')", many[7]))[0] == "55P03"
    await left_open.commit()
    assert (await note(connection, many[7]))["what"] == "stored"
    assert await connection.fetchval("select count(*) from memoryd.lanes where lane like 'knowledge %'") == 0


async def test_the_same_text_noted_twice_at_once_is_stored_once(
    connection: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    told = await asyncio.gather(*(note(each, FRIDAYS, "decision") for each in (connection, second)))
    assert sorted(each["what"] for each in told) == ["stored", "strengthened"]
    [stored] = await connection.fetch("select id, said_again from shared_knowledge")
    assert {each["id"] for each in told} == {stored["id"]}
    assert stored["said_again"] == 1


@pytest.mark.parametrize(
    ("call", "state", "said"),
    [
        (
            "note_knowledge(repeat('long ', 2100000), 'insight', 'a')",
            "23514",
            "content has 10499999 characters",
        ),
        ("note_knowledge('', 'insight', 'a')", "23514", "blank"),
        ("note_knowledge('a', null, 'a')", "22023", "category null"),
        ("note_knowledge('a', 'insight', null)", "23502", "created_by"),
        (
            "note_knowledge('a', 'insight', 'a', related_ids => array[gen_random_uuid()])",
            "P0002",
            "not there",
        ),
        ("note_knowledge('a', 'outcome', 'a')", "22023", "success"),
        ("note_knowledge('a', 'insight', 'a', confidence => 'sure')", "23514", "unknown confidence"),
    ],
)
async def test_a_note_that_cannot_be_stored_is_refused(
    service: asyncpg.Connection, call: str, state: str, said: str
) -> None:
    found = await refused(service, f"select * from {call}")
    assert found[0] == state
    assert said in found[1]


async def test_a_note_of_five_megabytes_is_stored_and_known_again(service: asyncpg.Connection) -> None:
    for what in ("stored", "strengthened"):
        sql = "select what from note_knowledge(repeat('long words ', 460000), 'insight', 'a')"
        assert await service.fetchval(sql) == what


async def test_nul_is_refused_and_end_users_may_not_note(scratch: asyncpg.Connection) -> None:
    assert (await refused(scratch, "select note_knowledge($1, 'insight', 'a')", "a\x00b"))[0] == "22021"
    async with acting_as(scratch, ANN):
        for call in (
            "note_knowledge('I own this', 'principle', 'ann', tier => 'core')",
            "decisions()",
            "decision_rates()",
            "resolve_knowledge(gen_random_uuid())",
            "memoryd.nearest_knowledge('a', null, null)",
        ):
            assert (await refused(scratch, f"select {call}"))[0] == "42501"


# --- Share knowledge, not identity.

KEY = "A" * 4 + "b1" * 18
REFUSED = [
    ("a private key", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r"),
    ("an AWS access key", "Use AKIA" + "IOSFODNN7EXAMPLE for the bucket"),
    ("code host", "the bot pushes with ghp_" + KEY[:36]),
    ("code host", "glpat-" + KEY[:20]),
    ("an API key", "OPENAI_API_KEY=sk-proj-" + KEY),
    ("an API key", "sk-ant-api03-" + KEY),
    ("payment service", "charge with sk_live_" + KEY[:24]),
    ("chat service", "xoxb-123456789012-" + KEY[:20]),
    ("an API key", "maps: AIza" + KEY[:35]),
    ("a signed token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w"),
    ("a URL with a password", "postgres://admin:tr0ub4dor@db.example.com/prod"),
    ("a password or key", "The admin password is hunter2hunter"),
    ("a password or key", "password: 'c0rrecth0rse'"),
    ("a password or key", "api_key = 9f8e7d6c5b4a3210"),
    ("a password or key", "export X_TOKEN=correcthorse"),
    ("a password or key", "PGPASSWORD=correcthorse psql -h db"),
    ("a password or key", "Server=db;User Id=sa;Password=correcthorse;"),
    ("a password or key", "deploy --secret-key c0rrecth0rse"),
    ("a password or key", "mysqldump -pcorrecthorse shop"),
    ("a password or key", "sshpass -p correcthorse ssh host"),
    ("a password or key", "curl -u ann:correcthorse https://example.com"),
    ("a password or key", "Authorization: Basic YWxhZGRpbjpvcGVu"),
    ("a password or key", "create user ann identified by 'correcthorse'"),
    ("a password or key", "Password: correcthorse"),
    ("a password or key", '{"client_secret": "correcthorse"}'),
    ("a URL with a password", "redis://:correcthorse@cache:6379/0"),
]
ALLOWED = [
    SECRET_STORE,
    "Never log tokens: a token in a log is a leak.",
    "Passwords are hashed with argon2id; the token is valid for 15minutes.",
    "The secret is kept in the vault under billing/live.",
    "Connect with postgres://user:password@host/db, as the manual says.",
    "API key: ask Sage. Password: see the vault.",
    "Customers like skinny fonts and the task-oriented menu sk-8.",
    "The password is required for administrators, the token: optional.",
    "Set PASSWORD=$DATABASE_PASSWORD in the environment.",
    "The password is reset by mail; token=3 in the test; max_tokens=4096, tokenizer=wordllama.",
    "password = getpass.getpass(); token = next(tokens); secret_name: db-credentials; key=lambda x: x",
    "Password: required\nPassword: at least 8 characters\npassword varchar(255)",
    "mysqldump -p shop > a.sql; docker login --password-stdin; tool --password-file /run/secrets/db",
    "Authorization: Bearer $TOKEN; curl -u $USER:$PASS x; basic authorization is fine without TLS1",
    "Draft minutes of the board go to the secretary a week before.",
    "Reasoning about time zones is hard: store UTC.",
    "The identity provider of Acme is down on Sundays.",
    "Rapport with clients grows when we answer within an hour.",
    "The soul of the product is its editor.",
]


TAKEN = {
    "the PIN is 4711 and the password {S}",
    "wifi password - {L}",
    "ENV API_SECRET {L}",
    "OTP secret JBSWY3DPEHPK3PXP",
}
"""Only a reader tells these from a text about credentials, and an entry that is refused is lost."""


async def test_credentials_are_known_by_the_form_of_what_stands_around_them(
    service: asyncpg.Connection,
) -> None:
    """In command lines, settings, addresses and sentences, also one of letters alone; and no text about credentials is."""
    found = (
        "select array(select t from unnest($1::text[]) t where (memoryd.credential_in(t) is not null) = $2)"
    )
    missed = await service.fetchval(found, [written(form) for form in FORMS], False)
    assert set(missed) == {written(form) for form in TAKEN}
    assert await service.fetchval(found, ORDINARY, True) == []


async def test_what_an_agent_keeps_to_itself_is_refused_and_says_why(service: asyncpg.Connection) -> None:
    for kind, text in REFUSED:
        state, said, hint = await refused(service, "select note_knowledge($1, 'insight', 'a')", text)
        assert (state, kind in said) == ("23514", True), text
        assert "secret store" in hint
        assert text not in said + hint
    for columns in (
        {"category": "identity"},
        {"title": "SOUL.md"},
        {"tags": ["draft"]},
        {"title": "[DRAFT] Plan of the spring"},
        {"category": "rapport"},
        {"content": "<thinking>The user seems sad</thinking>"},
        {"tags": ["a", "Chain-of-Thought"]},
    ):
        values = row("Spring", "What we plan in spring") | columns
        names = ", ".join(values)
        places = ", ".join(f"${n}" for n in range(1, len(values) + 1))
        found = await refused(
            service, f"insert into shared_knowledge ({names}) values ({places})", *values.values()
        )
        assert found[0] == "23514", columns
        assert "agent_memory" in found[2]


async def test_what_is_about_credentials_is_shared(service: asyncpg.Connection) -> None:
    for text in ALLOWED:
        await insert(service, "shared_knowledge", row(text[:40], text))
    # A tag says what an entry is about, too: research findings are shared.
    for tag in ("reasoning", "identity", "mood", "Personality", "emotional", "thoughts"):
        found = row(f"Research on {tag}", f"Research findings: {tag} is measured with a questionnaire")
        await insert(service, "shared_knowledge", found | {"tags": [tag]})
    which = await insert(service, "shared_knowledge", row("Later", "Nothing yet"))
    sql = "update shared_knowledge set content = $2 where id = $1"
    assert (await refused(service, sql, which, REFUSED[0][1]))[0] == "23514"


# --- Organisations.


async def test_organisations_do_not_find_each_others_knowledge(scratch: asyncpg.Connection) -> None:
    acme, globex = uuid4(), uuid4()
    made = {}
    for org in (acme, globex, None):
        async with acting_as(scratch, None, role="memoryd_service"):
            await scratch.execute("select set_config('memoryd.org_id', $1, true)", str(org or ""))
            told = await note(scratch, "The walrus sings on Fridays.", "decision", tags=["walrus"])
            assert told["what"] == "stored", "another organisation's entry counted as known"
            made[org] = told["id"]
    for org, which in made.items():
        async with acting_as(scratch, None, role="memoryd_service"):
            await scratch.execute("select set_config('memoryd.org_id', $1, true)", str(org or ""))
            for sql in (
                "select id from recall('walrus sings', sources => '{knowledge}')",
                "select id from recall('walrus sings', 'sybil', sources => '{knowledge}')",
                "select id from recall('walrus sings', null, gen_random_uuid(), sources => '{knowledge}')",
                "select id from search_shared_knowledge(query => 'walrus sings', match_threshold => 0.1)",
                "select id from decisions()",
            ):
                assert await column(scratch, sql) == [which], (org, sql)
            assert await column(scratch, "select id from recall('walrus', null, gen_random_uuid())") == []
            seen = set(await column(scratch, "select id from shared_knowledge"))
            assert seen == ({which} if org else set(made.values()))
    async with acting_as(scratch, None, role="memoryd_service", claims=json.dumps({"org_id": str(acme)})):
        assert await column(scratch, "select id from shared_knowledge") == [made[acme]]
        sql = "insert into shared_knowledge (org_id, tier, category, title, content, created_by) "
        sql += "values ($1, 'core', 'team', 'a', 'b', 'c')"
        assert (await refused(scratch, sql, globex))[0] == "42501"
        named = "select note_knowledge('a', 'insight', 'a', related_ids => array[$1::uuid])"
        assert (await refused(scratch, named, made[globex]))[0] == "P0002"
    async with acting_as(scratch, None, role="memoryd_service"):
        await scratch.execute("set local memoryd.org_id = 'acme'")
        assert "no UUID" in (await refused(scratch, "select * from shared_knowledge"))[1]


async def test_an_export_has_what_a_user_wrote_for_any_organisation_whatever_the_token_says(
    scratch: asyncpg.Connection,
) -> None:
    """Functions that run as the owner compare organisations themselves, where they have to: a policy does not hold them."""
    for title, org in (("of theirs", uuid4()), ("of none", None)):
        await insert(scratch, "shared_knowledge", row(title, "By Ann", created_by=str(ANN), org_id=org))
    for said in (str(uuid4()), "acme"):
        async with acting_as(scratch, None, claims=json.dumps({"sub": str(ANN), "org_id": said})):
            exported = json.loads(await scratch.fetchval("select export_user_memory($1)", ANN))
        titles = {entry["title"] for entry in exported["tables"]["shared_knowledge"]}
        assert titles == {"of theirs", "of none"}, said


async def test_an_erasure_takes_what_a_user_wrote_for_any_organisation(scratch: asyncpg.Connection) -> None:
    for org in (uuid4(), None):
        await insert(scratch, "shared_knowledge", row("Mine", "By Ann", created_by=str(ANN), org_id=org))
    await insert(scratch, "shared_knowledge", row("Not mine", "By saber"))
    async with acting_as(scratch, None, role="memoryd_service"):
        await scratch.execute("select set_config('memoryd.org_id', $1, true)", str(uuid4()))
        await scratch.execute("select erase_user_memory($1)", ANN)
        assert await scratch.fetchval("select count(*) from shared_knowledge") == 0
    assert await column(scratch, "select title from shared_knowledge") == ["Not mine"]
