"""No query of the hot path reads a big table from end to end: the indexes are there, and the planner takes them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pgvector.asyncpg
import pytest

from daemon import activity, upkeep
from daemon.db import lease as leases
from daemon.queue import backlog, queue
from handlers import associate, capture, context, lexicon, request
from handlers.dream import lease, reader, writer
from handlers.shared import indexing as index_rows
from plugins.documents import situate
from plugins.executor import commands
from plugins.facts import facts
from plugins.operate.metrics import reading
from plugins.operate.tracing import rows as trace_rows
from plugins.trail import delivery
from plugins.trail import log as trail_log
from plugins.trail import reading as trail_reading
from plugins.web import lists
from plugins.web.pages import conversations, documents, dreams, graph, knowledge, memories
from tests.support.access.acting import acting_as
from tests.support.content.sources import TABLES
from tests.support.database.big_tables import BIG, SEED
from tests.support.database.plans import read_of, scans
from tests.support.database.schemas import NO_TRIGGERS
from tests.support.database.servers import Server
from tests.support.database.templates import copied, make_once


@pytest.fixture(scope="module")
async def seeded(server: Server, template: str) -> AsyncIterator[str]:
    """A database with some tens of thousands of rows of everything, and no daemon."""
    source = f"{template}_seeded"
    await make_once(server, source, lambda opened: opened.execute(SEED), source=template)
    async with copied(server, source) as url:
        yield url


@pytest.fixture
async def busy(seeded: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to it, whose transaction is undone."""
    opened = await asyncpg.connect(seeded, server_settings={"jit": "off"})
    await pgvector.asyncpg.register_vector(opened)
    transaction = opened.transaction()
    await transaction.start()
    yield opened
    await transaction.rollback()
    await opened.close()


IDS, TIME = [UUID(int=n) for n in range(16)], datetime.now(UTC)
NUMBERS, SIXTEEN = list(range(16)), [1] * 16
NO_EMBEDDINGS = [None] * 16
TOPICS = ["context", "capture", "index", "associate", "request", "dream", "nothing"]

STATEMENTS: dict[str, tuple[str, tuple[object, ...]]] = {
    "queue claim": (queue.CLAIM, ("index", 64, 30.0, 5, 1)),
    "queue claim of a topic without work": (queue.CLAIM, ("request", 64, 30.0, 5, 1)),
    "queue complete": (queue.COMPLETE, (NUMBERS, SIXTEEN)),
    "queue complete lanes": (
        queue.COMPLETE_LANES,
        (NUMBERS, SIXTEEN, ["agent 1", "agent 2"], [1, 1], "capture", True),
    ),
    "queue hand back": (queue.HAND_BACK, (NUMBERS, SIXTEEN, 1.0, 1, None)),
    "queue begin solo attempt": (queue.BEGIN_SOLO_ATTEMPT, (1, 1)),
    "queue retry": (queue.RETRY, (1, 1, 1.0, "error")),
    "queue return lanes": (queue.RETURN_LANES, ("capture", ["agent 1", "agent 2"], [1, 1], 1.0)),
    "queue renew": (queue.RENEW, (NUMBERS, SIXTEEN, 1.0)),
    "queue renew lanes": (queue.RENEW_LANES, ("capture", ["agent 1", "agent 2"], [1, 1], 1.0)),
    "queue discard": (queue.DISCARD, (1, 1, "error", None)),
    "queue topics with work": (
        queue.TOPICS_WITH_WORK,
        (["context", "capture", "index", "associate", "request", "dream"],),
    ),
    "context read": (context.READ, (IDS,)),
    "context write": (context.WRITE, (IDS, NO_EMBEDDINGS)),
    "capture read": (capture.READ, (IDS,)),
    "capture write": (
        capture.WRITE,
        (IDS, ["a"] * 16, IDS, IDS, ["outcome"] * 16, ["text"] * 16, ["{}"] * 16, [TIME] * 16),
    ),
    **{f"index read {source}": (index_rows.READ % source, (source, IDS, IDS[:1])) for source in TABLES},
    "associate read new": (associate.READ_NEW, (IDS,)),
    "associate read reach": (
        associate.READ_REACH,
        ("agent 1", None, [TIME - timedelta(days=1), TIME], None, None),
    ),
    "associate read nearest": (associate.READ_REACH, ("agent 1", None, [TIME], None, 6)),
    "associate read candidates": (associate.READ_CANDIDATES, (IDS, IDS)),
    "associate write": (
        associate.WRITE,
        (IDS, [TIME] * 16, IDS, IDS, IDS[::-1], ["related"] * 16, [0.5] * 16, [TIME] * 16),
    ),
    "associate read later": (associate.READ_LATER, (IDS,)),
    "associate link later": (associate.LINK_LATER, (IDS, IDS[::-1], [0.5] * 16)),
    "facts read": (facts.READ, (IDS[0], 20)),
    "facts show": (facts.SHOW, (IDS[0], IDS, TIME, 30, None, "alice")),
    "facts lock": (facts.LOCK, (IDS, IDS[0])),
    "facts take": (facts.TAKE, (IDS, [TIME] * 16, IDS[0])),
    "facts drop": (facts.DROP, (IDS[0],)),
    "facts standing": (facts.STANDING, (IDS, IDS[0])),
    "facts sources": (facts.SOURCES, (IDS, IDS, IDS)),
    "facts supersede": (facts.SUPERSEDE, (IDS, IDS[::-1])),
    "facts end": (facts.END, (IDS, [TIME] * 16)),
    "context register": (context.REGISTER, (["agent 1"], 1.0)),
    "lexicon new": (lexicon.READ_NEW, (2000,)),
    "lexicon page": (lexicon.READ_PAGE, ("word5",)),
    "lexicon lock": (lexicon.LOCK, (["word5", "word6"],)),
    "lexicon write": (lexicon.WRITE_VECTORS, (["word5", "word6"], [None, None])),
    "unknown words": ("select memoryd.unknown_words($1)", (["word5", "word6"],)),
    "executor complete": (commands.COMPLETE, (UUID(int=1), UUID(int=2), "x", 0, None)),
    "executor hand back": (commands.HAND_BACK, (UUID(int=1), IDS)),
    "request read": (request.READ, (IDS,)),
    **{
        f"traces of {topic}": (trace_rows.statement(query), (IDS,))
        for topic, query in (trace_rows.BY_TOPIC | trace_rows.BY_SOURCE).items()
    },
    "request answer": (request.ANSWER, (IDS, NO_EMBEDDINGS, NO_EMBEDDINGS)),
    "dream due": (lease.DUE, (21600.0, 21600.0, 172800.0, 3, 86400.0)),
    "dream find dead": (lease.FIND_DEAD, ()),
    "dream end dead": (lease.END_DEAD, ()),
    "dream renew": (lease.RENEW, (UUID(int=1), 20.0)),
    "dream read page": (
        reader.READ_PAGE,
        (TIME - timedelta(days=2), TIME - timedelta(days=1), UUID(int=1), 50),
    ),
    "dream read sources": (reader.READ_SOURCES, (IDS,)),
    "dream read stale": (reader.READ_STALE, (200,)),
    "dream confirm": (writer.CONFIRM, (IDS, IDS[0])),
    "dream drop stale": (writer.DROP_STALE, (IDS,)),
    "dream judge": (writer.JUDGE, (IDS, [0.5] * 16, [TIME] * 16, [TIME] * 16, [None] * 16)),
    "dream prune": (writer.PRUNE, ()),
    "insights of memories": ("select from dream_insights i where i.source_memories && $1::uuid[]", (IDS,)),
    "situate read document": (situate.READ_DOCUMENT, (IDS[0], 4000)),
    "situate read chunks": (situate.READ_CHUNKS, (IDS[0], 32)),
    "situate write": (situate.WRITE, (IDS, ["a"] * 16, ["b"] * 16)),
    "situate continue": (situate.CONTINUE, (IDS[0],)),
    "fail overdue": (upkeep.FAIL_OVERDUE, (24.0,)),
    "expire answers": (upkeep.EXPIRE_ANSWERS, (100,)),
    "activity write": (activity.WRITE, (IDS[0], 1, 30.0, "[]")),
    "activity measure queue": (activity.MEASURE_QUEUE, (TOPICS,)),
    "activity drop": (activity.DROP_OLD, ()),
    "trail look": (trail_log.LOOK, ()),
    "trail last checkpoint": (trail_log.LAST, ()),
    "prove": (trail_reading.FIND, (IDS[0],)),
    "ledger plan anchors": (delivery.PLAN_ANCHORS, ("evm", 1000)),
    "ledger plan checkpoint": (delivery.PLAN_CHECKPOINT, ("evm",)),
    "ledger claim": (delivery.CLAIM, ("evm", 1.0)),
    "ledger item": (delivery.READ, ("evm", [str(IDS[0])])),
    "ledger items": (delivery.READ, ("evm", [str(UUID(int=n)) for n in range(10)])),
    "lag": (backlog.LAG, (TOPICS,)),
    "metrics": (reading.READ, (TOPICS, 15.0)),
    "lease take": (leases.TAKE, ("metrics", "build", 60.0)),
    "lease renew": (leases.RENEW, ("metrics", "build", 60.0, 1)),
    "executor claim": (commands.CLAIM, (UUID(int=1), 2, 4, 30.0)),
    "page of the graph of an agent": (
        graph.STRONGEST.format(
            conditions=f"a.memory_id in ({graph.OF_AGENT.format('$1', whose='is null')})", limit=101
        ),
        ("agent 1",),
    ),
    "page of the graph of a user": (
        graph.STRONGEST.format(conditions=f"a.memory_id in ({graph.OF_USER.format('$1')})", limit=101),
        (UUID(int=1),),
    ),
    "page of the graph around a memory": (
        graph.TWO_STEPS.format(conditions="a.strength >= 0.5", wanted="$1", limit=6001, skipped=0),
        (UUID(int=1),),
    ),
    "page of links": (graph.LINKS, (IDS,)),
    "page of the graph's memories": (graph.MEMORIES, (IDS,)),
    "page of messages": (conversations.MESSAGES.rows_sql, (UUID(int=1), 0)),
    "page of messages before": (conversations.MESSAGES.earlier, (UUID(int=1), 50, 50)),
    "page of facts in messages": (conversations.FOUND_IN, (IDS[:1], ["x"])),
    "page of counted messages": (conversations.COUNTS, (IDS,)),
    "page of chunks": (documents.CHUNKS.rows_sql, (UUID(int=1), 0)),
    "page of counted chunks": (documents.COUNTS, (IDS,)),
    "page of what knowledge names": (knowledge.NAMED, (UUID(int=1), IDS)),
}


async def test_a_statement_of_the_daemon_reads_no_big_table_whole(
    busy: asyncpg.Connection, subtests: pytest.Subtests
) -> None:
    for name, (sql, arguments) in STATEMENTS.items():
        with subtests.test(name):
            async with busy.transaction():
                plan = json.loads(await busy.fetchval(f"explain (format json) {sql}", *arguments))
            assert scans(plan) & BIG == set()


async def test_the_newest_rows_of_a_page_are_found_by_their_time(
    busy: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Far fewer than there are: what looks through as many as a table has may as well read it whole.
    monkeypatch.setattr(lists, "SCANNED", 200)
    # The seed has them all at one moment.
    await busy.execute(NO_TRIGGERS)
    for table, column, listed, always in (
        ("documents", "updated_at", documents.LIST, "true"),
        ("shared_knowledge", "updated_at", knowledge.LIST, "k.status <> 'archived'"),
        ("dream_insights", "generated_at", dreams.INSIGHTS, "true"),
        ("dream_sessions", "started_at", dreams.DREAMS, "true"),
        ("agent_memory", "created_at", memories.LIST, "true"),
    ):
        await busy.execute(f"update {table} set {column} = now() - random() * interval '1 year'")
        await busy.execute(f"analyze {table}")
        filters = lists.Conditions()
        filters.where(always)
        for _ in range(2):
            plan = json.loads(await busy.fetchval(f"explain (format json) {listed.page_sql(filters)}"))
            assert scans(plan) == set(), table
            filters.scan_for(f"length({listed.table.split()[-1]}.id::text) < 0")


@pytest.mark.parametrize("words", [None, "falken horst"])
async def test_what_was_said_is_found_by_its_time(
    busy: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, words: str | None
) -> None:
    # The seed has them all at one moment.
    await busy.execute(NO_TRIGGERS)
    await busy.execute("update conversation_messages set created_at = now() - random() * interval '1 year'")
    await busy.execute("analyze conversation_messages")
    monkeypatch.setattr(conversations, "SCANNED", 200)
    monkeypatch.setattr(conversations, "NEAR", 50)
    for user, further in ((None, False), (None, True), (IDS[0], False)):
        filters = lists.Conditions()
        listed = conversations.said_last(filters, user, words, further=further)
        for sql in (listed.page_sql(filters), listed.count_sql(filters)):
            plan = json.loads(await busy.fetchval(f"explain (format json) {sql}", *filters.values))
            assert scans(plan) == set()


async def test_of_a_long_conversation_of_a_user_a_list_reads_the_last_message_alone(
    busy: asyncpg.Connection,
) -> None:
    user = UUID(int=77)
    await busy.execute(NO_TRIGGERS)
    await busy.execute("insert into conversation_sessions (id, user_id) values ($1, $1)", user)
    await busy.execute(
        "insert into conversation_messages (session_id, user_id, message_index, role, content, created_at) "
        "select $1, $1, n, 'user', 'of the heron ' || n, now() - make_interval(secs => n) from generate_series(1, 100000) n",
        user,
    )
    await busy.execute("analyze conversation_sessions, conversation_messages")
    # With words as many messages as any list looks through.
    for words, most in ((None, 1), ("heron", lists.SCANNED + 200)):
        filters = lists.Conditions()
        listed = conversations.said_last(filters, user, words, further=False)
        for sql in (listed.page_sql(filters), listed.count_sql(filters)):
            plan = json.loads(await busy.fetchval(f"explain (analyze, format json) {sql}", *filters.values))
            assert read_of("conversation_messages", plan) <= most


async def test_metrics_count_what_is_little_and_estimate_what_is_much(busy: asyncpg.Connection) -> None:
    sql, arguments = STATEMENTS["metrics"]
    read = json.loads(await busy.fetchval(sql, *arguments))
    jobs = {(topic, state): count for topic, state, count in read["jobs"]}
    assert jobs["context", "ready"] == 2000
    much = await busy.fetchval("select count(*) from memoryd.jobs where topic = 'index'")
    assert backlog.EXACT < much / 2 < jobs["index", "ready"] < 2 * much
    assert read["lag"].keys() == {"context", "capture", "index", "request"}
    assert read["rows"]["memory"] == 30_000


ONE_MEMORY = "(select id from agent_memory where agent_id = 'agent 3' limit 1)"
ONE_RUNNING = "(select id from agent_commands where status = 'running' order by started_at limit 1)"
ONE_QUERY = """
with q as (
    update memory_queries
    set retrieved_memory_ids = (select array_agg(id) from (select id from agent_memory where agent_id = 'agent 1' limit 10) m)
    where id = (select id from memory_queries order by query_time limit 1)
    returning id
)
select mark_useful(id, true) from q
"""

SOME = "(select array_agg(t.id) from (select id from {} where id > md5('m')::uuid order by id limit 16) t)"
WRITE = """
select * from memoryd.write_entries('{source}', {ids}, array_fill(null::bigint, array[16]), {ids},
                                    array_fill('the new text'::text, array[16]),
                                    array_fill(array_fill(0.1, array[256])::vector, array[16]))
"""

CALLS = {
    **{
        f"index write {source}": WRITE.format(source=source, ids=SOME.format(table))
        for source, (table, _) in TABLES.items()
    },
    "claim_command": "select * from claim_command('agent 1')",
    "claim_command of nothing": "select * from claim_command('agent 2')",
    "complete_command": f"select complete_command({ONE_RUNNING}, 'x')",
    "build_context": "select build_context('agent 1', 'deploy server again')",
    "build_context of a question": "select build_context('agent 1', 'How do we restart server 7 of agent 2?')",
    "explain_context": "select * from explain_context('agent 1', 'Did we restart server 7?')",
    "classify_message": "select * from classify_message('Should agent 2 restart the Server for Ann 1?')",
    "counting what was used": "select memoryd.count_retrieved(100)",
    "cutting outdated texts": "select * from memoryd.remove_outdated(10)",
    "recall of an agent": "select * from recall('deploy server', 'agent 1')",
    "recall of a user": "select * from recall('deploy server', 'agent 1', gen_random_uuid(), sources => '{memory}')",
    "recall of everything": "select * from recall('what was said of server 7')",
    "recall by meaning": "select * from recall('deploy server', 'agent 1', null, array_fill(0.1, array[256])::vector)",
    "recall of a user by meaning": "select * from recall('server', null, md5('u7')::uuid, array_fill(0.1, array[256])::vector)",
    "recall of a time": "select * from recall('server in May', null, md5('u7')::uuid, array_fill(0.1, array[256])::vector)",
    "recall of nothing but a time": "select * from recall('what happened in 2026?', null, md5('u7')::uuid)",
    "recall as a user": "select memoryd.answer_as_user('recall', null, md5('u7')::uuid, 'server', '{}', null, null)",
    "recall as a user of no rows": "select memoryd.answer_as_user('recall', null, md5('x')::uuid, 'log', '{}', null, null)",
    "recall as a member": "select memoryd.answer_as_user('recall', null, md5('u4000')::uuid, 'server', '{}', null, null)",
    "recall for a member": "select * from recall('x', null, md5('u4000')::uuid, array_fill(0.1, array[256])::vector)",
    "memories by their keys": "select * from search_keys('x/', agent_id => 'agent 1')",
    "memories by their keys, asked for": "select * from search_keys('', 'server', 'agent 1', md5('u7')::uuid)",
    "a memory with a key": "select * from remember('x', 'agent 1', key => 'k')",
    "cleanup_expired_memory": "select cleanup_expired_memory(100)",
    "mark_useful": ONE_QUERY,
    "claim_lanes": "select * from memoryd.claim_lanes('capture', 64, 256, interval '30 seconds')",
    "claim_lanes of nothing": "select * from memoryd.claim_lanes('associate', 64, 256, interval '30 seconds')",
    "a new note": "select * from note_knowledge('restart server 7 at once', 'insight', 'agent 1')",
    "new knowledge": "insert into shared_knowledge (tier, category, title, content, created_by) "
    "values ('core', 'x', 'y', 'z', 'w')",
    "decisions": "select * from decisions(match_count => 2)",
    "a new command": "insert into agent_commands (agent_id, message) values ('agent 1', 'x')",
    "a new memory": "insert into agent_memory (agent_id, content) values ('agent 1', 'x')",
    "new words": f"update agent_memory set content = 'y' where id = {ONE_MEMORY}",
    "a memory less": f"delete from agent_memory where id = {ONE_MEMORY}",
    "names in titles of knowledge": "select memoryd.title_names('{server,release,falkenhorst,\"blue heron\"}')",
    "knowledge that is named": "select * from memoryd.named_knowledge('{server,falkenhorst}')",
    "names in a message of a user": (
        "select memoryd.known_names('was Name7 here?', ' . was name7 here ? . ', null, md5('u7')::uuid)"
    ),
    "names that a user said": "select * from names_said(md5('u7')::uuid)",
    "links that fade": "select memoryd.fade_links(now(), 100)",
    "facts of a message": (
        "select memoryd.forget_facts(array[(select message_id from memoryd.fact_sources "
        "where message_id > md5('m')::uuid order by message_id limit 1)])"
    ),
    "a memory anchored": f"select memoryd.anchor({ONE_MEMORY}, 'decision')",
    "anchors of an agent": "select memoryd.anchor_line('agent 7', null)",
    "places of leaves": "select * from memoryd.sequence_anchors(100)",
    "facts about anchors": "select memoryd.write_anchor_facts('{evm}', 100)",
    "anchors of a user erased": f"select memoryd.seal_anchors({SOME.format('memory_anchors')})",
    "what was true": "select * from memory_as_of(now(), user_id => md5('u7')::uuid)",
    "a memory in place of another": (
        "select supersede_memory((select m.id from agent_memory m "
        "where m.id > md5('m')::uuid and m.superseded_by is null order by m.id limit 1), 'y')"
    ),
    "a new request": "insert into memory_requests (kind, query) values ('recall', 'x')",
    "a new request of a user": "insert into memory_requests (kind, user_id, query) values ('recall', md5('u7')::uuid, 'x')",
}
OF_A_USER = {
    "memories by their keys": "select * from search_keys('x/', 'server', 'agent 1')",
    "a new request": "insert into memory_requests (kind, user_id, query) values ('recall', memoryd.caller_id(), 'x')",
    "a new command": "insert into agent_commands (agent_id, user_id, message) values ('agent 1', memoryd.caller_id(), 'x')",
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_of_a_client_reads_no_big_table_whole(busy: asyncpg.Connection, name: str) -> None:
    assert await read_whole(busy, CALLS[name]) == set()


@pytest.mark.parametrize("name", OF_A_USER)
async def test_what_a_user_has_pending_is_counted_by_an_index(busy: asyncpg.Connection, name: str) -> None:
    await busy.execute("update agents set open_to_users = true where agent_id = 'agent 1'")
    async with acting_as(busy, UUID(int=7)):
        assert await read_whole(busy, OF_A_USER[name]) == set()


async def test_names_in_titles_are_found_by_their_own_index(busy: asyncpg.Connection) -> None:
    """No other index may serve: capitals of every title would be looked for."""
    source = await busy.fetchval("select prosrc from pg_proc where proname = 'title_names'")
    query = re.search(r"select k\.title.*?limit 50", source, re.DOTALL)
    assert query
    await busy.execute("set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off")
    await busy.execute(f"prepare titled(text[]) as {query[0].replace('asked', '$1')}")
    plan = await busy.fetchval("explain (format json) execute titled('{server}')")
    assert '"Index Name": "shared_knowledge_capitals"' in plan
    assert "shared_knowledge_updated" not in plan
    await busy.execute("deallocate titled")


OF_A_MEMBER = {
    "messages of a session": "select * from load_context(md5('g1')::uuid)",
    "the newest messages": "select content from conversation_messages order by created_at desc limit 10",
    "all messages": "select message_text from conversation_history",
    "groups": "select id from chat_groups",
    "sessions": "select id from conversation_sessions",
}


@pytest.mark.parametrize("name", OF_A_MEMBER)
async def test_a_member_of_a_group_reads_no_big_table_whole(busy: asyncpg.Connection, name: str) -> None:
    user = await busy.fetchval("select md5('u4000')::uuid")
    async with acting_as(busy, user):
        assert await read_whole(busy, OF_A_MEMBER[name]) == set()


async def read_whole(busy: asyncpg.Connection, sql: str) -> set[str]:
    """The tables that a statement reads from end to end, by what was done: a function's own plans are not in its caller's."""
    counted = "select relname, seq_scan from pg_stat_xact_user_tables where relname = any($1)"
    before = {row["relname"]: row["seq_scan"] for row in await busy.fetch(counted, list(BIG))}
    # Six times: from the sixth on a function's plans are generic ones.
    for _ in range(6):
        await busy.fetch(sql)
    after = {row["relname"]: row["seq_scan"] for row in await busy.fetch(counted, list(BIG))}
    assert set(after) == BIG
    return {table for table in BIG if after[table] > before[table]}


FREE_WORKERS = """
set max_parallel_workers_per_gather = 4; set parallel_setup_cost = 0; set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0; set min_parallel_index_scan_size = 0;
"""
LAUNCHED = "select parallel_workers_to_launch from pg_stat_database where datname = current_database()"


@pytest.mark.parametrize("name", ["build_context", *(name for name in CALLS if name.startswith("recall"))])
async def test_no_recall_starts_parallel_workers(seeded: str, name: str) -> None:
    """Among a million rows the planner finds them worth it: they tripled the time of a question to one small scope."""
    opened = await asyncpg.connect(seeded, server_settings={"jit": "off"})
    try:
        if opened.get_server_version().major < 18:
            pytest.skip("Postgres counts its workers from 18 on")
        await opened.execute(FREE_WORKERS)
        for statement, launches in ((CALLS[name], False), ("select count(*) from agent_memory", True)):
            before = await opened.fetchval(LAUNCHED)
            async with opened.transaction():
                await opened.fetch(statement)
            await opened.execute("select pg_stat_force_next_flush()")
            assert (await opened.fetchval(LAUNCHED) > before) == launches
    finally:
        await opened.close()


async def test_a_scan_of_a_big_table_would_be_seen(busy: asyncpg.Connection) -> None:
    plan = json.loads(
        await busy.fetchval(
            "explain (format json) select * from agent_memory where content = $1", str(uuid4())
        )
    )
    assert scans(plan) == {"agent_memory"}
