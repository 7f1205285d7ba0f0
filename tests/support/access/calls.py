"""Calls of every function that an end user, or support, may execute: with others' ids, others' scopes and words of all users.

In angle brackets stands what differs: <me>, <other>, <words>, <vector>, and a table's name for the ids of all its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from daemon.db.migration_files import load_sources
from tests.support.access.search_calls import CONTEXT_OPTIONS, SEARCH_CALLS, USERS, YES_NO, asked, request

EXECUTABLE = """
select distinct n.nspname || '.' || p.proname
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where n.nspname in ('public', 'memoryd') and has_function_privilege($1, p.oid, 'execute')
  and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
"""

WORDS = "When did Speaker markann, markbob, markagents have the secret recipe, message, chunk, pregnancy"
SOURCES = load_sources()
PURE = frozenset(
    f"memoryd.{name}"
    for name in (
        "agent_id_fits", "check_memory_type",
        "embedding_to_match", "grants_access", "is_current", "is_plain", "is_whole", "json_fits",
        "kind_weight", "kin_of", "memory_weight",
        "list_fits", "ms_since", "group_scope", "message_scope", "looks_like", "nfkc", "one_line",
        "is_blank", "asks_nothing", "calibrated",
        "refuse",
        "refuse_unseen", "scope_of", "searched_text", "source_names",
        "text_fits",
        "time_fits", "unseen", "meets", "is_comparison", "compares", "meets_filter",
        "options", "fault_of_options",
        "quote_hash", "refuse_ownerless",
        "claimed_trust", "disarmed", "is_small_talk", "least_trusted", "origin_mark", "excerpt", "lexemes_in",
        "words_of_question", "frequent_words", "function_words", "language_of",
        "passage_line", "phrases_of",
        "plain", "quoted", "says_same", "pattern_scopes", "trust_of_knowledge",
        "trust_of_memory", "words_of",
        "depends_on_day", "says_nothing",
    )
) | {"public.extract_keywords"}  # fmt: skip
"""Computed only from the arguments."""

_GROUPS = "array(select memoryd.group_scope(c, 'user') from unnest(<chat_groups>) c)"
_EACH_SCOPE = (
    "null",
    "0",
    "memoryd.scope_of('<me>', null)",
    "memoryd.scope_of('<other>', null)",
    "memoryd.scope_of(null, 'alice')",
    "memoryd.scope_of(null, '_shared')",
    f"({_GROUPS})[1]",
    f"({_GROUPS})[2]",
    f"({_GROUPS})[3]",
)


def _each(call: str, table: str) -> tuple[str, ...]:
    """A call with the id of every row of a table."""
    return (
        f"select r.* from unnest(<{table}>) with ordinality as i(id, place) cross join lateral {call} r order by i.place",
    )


_CALLERS = ("memoryd.current_caller()", "row('<other>', false, false)", "row('<me>', true, true)")
"""As the caller, as another user, and as a role with all rights."""


CALLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "public.agent-memory-read": (
            "select \"agent-memory-read\"('<words>', null, -1, 1000)",
            "select \"agent-memory-read\"('<words>', 'task_memory', 0, 1000)",
        ),
        "public.agent-memory-write": (
            "select \"agent-memory-write\"('<words>', 'task_memory') #> '{memory,user_id}'",
        ),
        "public.build_context": tuple(
            f"select build_context('{agent}', '<words>', {user}, '{options}')"
            for agent in ("alice", "_shared")
            for user in USERS
            for options in CONTEXT_OPTIONS
        ),
        "public.remember": tuple(
            f"select what from remember('<words>', 'alice', {user})" for user in ("'<me>'", "null")
        ),
        "public.search_keys": tuple(
            f"select * from search_keys('', {query}, '{agent}', {user}, match_count => 1000)"
            for query in ("null", "'<words>'")
            for agent in ("alice", "_shared")
            for user in USERS
        ),
        "public.names_said": (
            "select * from names_said()",
            *(f"select * from names_said({user})" for user in USERS),
        ),
        "public.secrets_key": ("select * from secrets_key()",),
        "public.classify_message": (
            "select * from classify_message('<words>')",
            "select * from classify_message('Did we tell Bob, Ann and Markbob about Secret, Recipe and Pregnancy?')",
        ),
        "public.explain_context": tuple(
            f"select * from explain_context('{agent}', '<words>', {user}, '{options}')"
            for agent in ("alice", "_shared")
            for user in USERS
            for options in CONTEXT_OPTIONS
        ),
        "public.erase_user_memory": tuple(f"select erase_user_memory({user})" for user in USERS),
        "public.explain_recall": asked("explain_recall"),
        "public.export_user_memory": tuple(f"select export_user_memory({user})" for user in USERS),
        # Row by row, others' among them, and what is not there.
        "public.forget": tuple(
            f"select forget(<{table}> || array[null, gen_random_uuid()], '{source}')"
            for source, table in (
                ("memory", "agent_memory"),
                ("message", "conversation_messages"),
                ("session", "conversation_sessions"),
                ("document", "documents"),
                ("chunk", "memory_chunks"),
            )
        )
        + tuple(f"select forget(array[{user}]::uuid[], 'settings')" for user in USERS),
        "public.index_state": ("select * from index_state(<agent_memory>) order by 1, 2",),
        "memoryd.states_of": ("select * from memoryd.states_of('memory', <agent_memory>) order by 1",),
        "public.last_recall": tuple(
            f"select last_recall() from (select set_config('memoryd.last_recall', q::text, true) from unnest({one}) q) s"
            for one in ("<memory_queries>", "array['00000000-0000-0000-0000-0000000000ff']")
        ),
        "public.mark_useful": tuple(
            f"select mark_useful({query}, {useful})::text"
            for query in (
                "(<memory_queries>)[1]",
                "(<memory_queries>)[2]",
                "(<memory_queries>)[3]",
                "'00000000-0000-0000-0000-0000000000ff'",
                "null",
            )
            for useful in YES_NO
        ),
        "public.load_context": _each("load_context(i.id, 100)", "conversation_sessions"),
        "public.match_memory": (
            "select * from match_memory(<vector>, -1, 100)",
            *(f"select * from match_memory(<vector>, -1, 100, null, {user})" for user in USERS),
        ),
        "public.memory_as_of": tuple(f"select * from memory_as_of(now(), {user}, 100)" for user in USERS),
        "public.recall": (
            *asked("recall"),
            *_each(
                "recall('<words>', options => "
                "jsonb_build_object('exclude_session', i.id, 'exclude_last', 1, 'around', 1))",
                "conversation_sessions",
            ),
        ),
        "public.supersede_memory": tuple(
            f"select supersede_memory({memory}, 'x') is null"
            for memory in (
                "(<agent_memory>)[1]",
                "(<agent_memory>)[2]",
                "(<agent_memory>)[3]",
                "'00000000-0000-0000-0000-0000000000ff'",
                "null",
            )
        ),
        "public.reset_session": _each("reset_session(i.id)", "conversation_sessions"),
        "memoryd.answer": tuple(
            f"select memoryd.answer('{kind}', 'alice', {user}, '<words>', '{{}}', <vector>, null)"
            for kind in ("context", "prompt", "recall", "export", "erase")
            for user in USERS
        ),
        "public.ask_memory": tuple(
            f"select ask_memory('{kind}', '<words>', 'alice', {user}, '{{}}', {request_id}) - 'recall_id'"
            for kind in ("context", "prompt", "recall", "read")
            for user in USERS
            for request_id in ("null", "(<memory_requests>)[1]", "(<memory_requests>)[2]")
        ),
        "memoryd.embed_by_daemon": tuple(
            f"select d::text from unnest(<memory_requests>) r, memoryd.embed_by_daemon('alice', {user}, '<words>', r) d"
            for user in USERS
        ),
        "memoryd.calibration": ("select memoryd.calibration()::text",),
        "memoryd.dimensions": ("select memoryd.dimensions()",),
        "memoryd.searched_dimensions": ("select memoryd.searched_dimensions()",),
        "memoryd.comparable": ("select memoryd.comparable(<vector>)::text",),
        "memoryd.anchor_line": ("select memoryd.anchor_line('alice', null)",),
        "memoryd.app_agent_id": ("select memoryd.app_agent_id()",),
        "memoryd.caller_or_401": ("select memoryd.caller_or_401()",),
        "memoryd.matched_by_words": tuple(
            f"select * from memoryd.matched_by_words('{source}', {user}, '<words>', '{{}}', -1, 1000)"
            for source in SOURCES
            for user in USERS
        ),
        "memoryd.words_shared": ("select memoryd.words_shared('<words>', 'a secret recipe')",),
        "memoryd.matches": tuple(
            f"select * from memoryd.matches('{source}', {user}, {scope}, {vector}, '<words>', '{{}}', -1, 1000)"
            for source in SOURCES
            for user, scope in zip(USERS, _EACH_SCOPE, strict=False)
            for vector in ("null", "<vector>")
        ),
        "memoryd.access_of": tuple(f"select memoryd.access_of({user}, null)" for user in USERS),
        "memoryd.caller_access": ("select memoryd.caller_access()",),
        "memoryd.is_withheld": (
            "select c, memoryd.is_withheld(c) from unnest(<conversation_messages>) c order by 1",
        ),
        "memoryd.caller_id": ("select memoryd.caller_id()",),
        "memoryd.caller_is_privileged": ("select memoryd.caller_is_privileged()",),
        "memoryd.runs_as_owner": ("select memoryd.runs_as_owner()",),
        "memoryd.current_caller": ("select memoryd.current_caller()",),
        "memoryd.caller_is_service": ("select memoryd.caller_is_service()",),
        "memoryd.caller_role": ("select memoryd.caller_role()",),
        "memoryd.compose": tuple(
            f"select c.block, c.row_ids from memoryd.compose('alice', '<words>', {user}, {only}, <vector>, null) c"
            for user in USERS
            for only in YES_NO
        ),
        "memoryd.vector_of_question": ("select memoryd.vector_of_question('<words>')::text",),
        "memoryd.embed": ("select memoryd.embed('<words>')::text",),
        "memoryd.nearest_in_scope": tuple(
            f"select * from memoryd.nearest_in_scope('{source}', {scope}, <vector>, '<words>', -1, 1000) order by 1"
            for source in SOURCES
            for scope in _EACH_SCOPE
        ),
        "memoryd.show_rows": tuple(
            f"select * from memoryd.show_rows('{{{source}}}', <{table}>) order by 1, 2"
            for source, table in SOURCES.items()
        ),
        "memoryd.document_of_chunk": (
            "select c, memoryd.document_of_chunk(c) from unnest(<memory_chunks>) c order by 1",
        ),
        "memoryd.linked_rows": tuple(
            f"select * from memoryd.linked_rows({request(agent=agent, user=user)}, "
            "<agent_memory>, '{}', '{secret,recipe}') order by 1"
            for user in USERS
            for agent in ("'alice'", "null")
        ),
        **{
            f"memoryd.{name}": tuple(
                f"select * from memoryd.{name}({arguments}, memoryd.conditions_of('{{\"profile\": 1000}}')) order by 2"
                for arguments in (given.format(user) for user in USERS)
            )
            for name, given in {
                "profile_of": "{}, 'alice'",
                "profile_lines": "'alice', '<words>', {}",
            }.items()
        },
        "memoryd.lines_of": tuple(
            "select * from memoryd.lines_of(array(select row("
            f"'{source}', i, 'x', 0.5, null, '{{}}', now(), 0, 0, 0, 0, 0, 0, 0.5, 1, 0, 0, 0, null)::memoryd.search_result "
            f"from unnest(<{table}>) i), 'alice', '<words>', 0) order by 3"
            for source, table in SOURCES.items()
        ),
        "memoryd.known_names": tuple(
            f"select memoryd.known_names('{words}', memoryd.plain('{words}'), {agent}, {user})"
            for words in ("<words>", "we told Markbob, Markann and the Secret about Recipe")
            for agent in ("'alice'", "null")
            for user in USERS
        ),
        "memoryd.patterns_of": tuple(
            f"select * from memoryd.patterns_of('<words>', {agent}, {user})"
            for agent in ("'alice'", "null")
            for user in USERS
        ),
        "memoryd.trust_of_insight": (
            "select i, memoryd.trust_of_insight(null, null, array[i], 'alice') from unnest(<agent_memory>) i order by 1",
        ),
        "memoryd.named_knowledge": ("select * from memoryd.named_knowledge('{secret,recipe}')",),
        "memoryd.repeats": tuple(
            "select r.* from (select array_agg(i::uuid) as ids, "
            f"array_agg('{source}'::text) as sources, array_agg(({scope})::bigint) as scopes, "
            f"array_agg({kind}::text) as kinds from unnest(<{table}>) i) g "
            "cross join lateral memoryd.repeats(g.sources, g.ids, g.scopes, g.kinds) r order by 1, 2"
            for source, table in SOURCES.items()
            for scope in _EACH_SCOPE
            for kind in ("null", "'error'")
        ),
        "memoryd.context_space": ("select memoryd.context_space(null)", "select memoryd.context_space(100)"),
        "memoryd.said_key": ("select memoryd.said_key('fact', null, '<words>')",),
        "memoryd.has_access_level": tuple(
            f"select count(*) from unnest(<{table}>) i where memoryd.has_access_level('{source}', i)"
            for source, table in SOURCES.items()
        ),
        "memoryd.single_lines": ("select * from memoryd.single_lines('{}')",),
        "memoryd.choose_lines": ("select * from memoryd.choose_lines('{}', 1000)",),
        "memoryd.context_request": (
            "select memoryd.context_request('alice', '<words>', null, <vector>, null, true) is null",
        ),
        "memoryd.context_opening": tuple(
            f"select memoryd.context_opening('alice', {user}, {only}, 'x')"
            for user in USERS
            for only in YES_NO
        ),
        "memoryd.gather_lines": tuple(
            f"select * from memoryd.gather_lines('alice', '<words>', {user}, {only}, <vector>, '{{task}}', '{{}}', 2000, "
            f"null, null, true)"
            for user in USERS
            for only in YES_NO
        ),
        "memoryd.explain_lines": tuple(
            f"select * from memoryd.explain_lines('alice', '<words>', {user}, {only}, <vector>)"
            for user in USERS
            for only in YES_NO
        ),
        "memoryd.log_retrieval": tuple(
            f"select memoryd.log_retrieval('alice', {user}, null, '{{x}}', '{{task}}', null, '{{memory}}', array[i], "
            "'{0.5}') is null from unnest(<agent_memory>) i"
            for user in USERS
        ),
        # That an agent is open is for users to know, and not whether one that is closed is there: 'bob' in neither world is.
        "memoryd.is_open": ("select memoryd.is_open('bob')", "select memoryd.is_open('_shared')"),
        "memoryd.memory_is_off": tuple(f"select memoryd.memory_is_off({user})" for user in USERS),
        "memoryd.audit_admin_anchor": tuple(
            f"select memoryd.audit_admin_anchor(gen_random_uuid(), {memory})"
            for memory in ("null", "gen_random_uuid()")
        ),
        "memoryd.audit_admin_memories": (
            "select memoryd.audit_admin_memories('agent_memory', <agent_memory>)",
            "select memoryd.audit_admin_memories('x', null)",
        ),
        "memoryd.audit_admin_names": tuple(
            f"select memoryd.audit_admin_names(array[{user}]::uuid[])" for user in USERS
        ),
        "memoryd.audit_admin_knowledge": tuple(
            f"select memoryd.audit_admin_knowledge({user})" for user in USERS
        ),
        "memoryd.audit_admin_read": tuple(
            f"select memoryd.audit_admin_read('agent_memory', {user})" for user in USERS
        ),
        "memoryd.audit_read": tuple(
            f"select memoryd.audit_read({user}, 'alice', 'recall', 3, 5)" for user in USERS
        ),
        "memoryd.may_name_session": _each("memoryd.may_name_session(i.id)", "conversation_sessions"),
        "memoryd.names_session": (
            (
                "select m, s, memoryd.names_session(m, s) "
                "from unnest(<agent_memory>) m, unnest(<conversation_sessions>) s order by 1, 2"
            ),
        ),
        "memoryd.owns_session": _each("memoryd.owns_session(i.id)", "conversation_sessions"),
        "memoryd.current_project": ("select memoryd.current_project()",),
        "memoryd.caller_org": ("select memoryd.caller_org()",),
        "memoryd.corrected_by": ("select memoryd.corrected_by(null)",),
        "memoryd.in_project": ("select memoryd.in_project('{\"project\": \"work\"}', 'home')",),
        "memoryd.conditions_of": _each(
            "memoryd.conditions_of(jsonb_build_object('exclude_session', i.id, 'exclude_last', 1))",
            "conversation_sessions",
        ),
        "memoryd.retrieved_memories": ("select * from memoryd.retrieved_memories() order by 1",),
        "memoryd.facts_said_in": (
            "select * from memoryd.facts_said_in(<conversation_messages>) order by 1, 2",
            # Of messages that are gone: as many ids as there are.
            (
                "select * from memoryd.facts_said_in(array(select jsonb_array_elements_text(metadata -> 'message_ids')::uuid "
                "from agent_memory where metadata ->> 'from' = 'conversation')) order by 1, 2"
            ),
        ),
        "memoryd.commands_shown": tuple(
            f"select * from memoryd.commands_shown(<{table}>) order by 1, 2"
            for table in (
                "agent_memory",
                "conversation_messages",
                "memory_chunks",
                "dream_insights",
                "shared_knowledge",
            )
        ),
        "memoryd.pieces_of": ("select * from memoryd.pieces_of(<conversation_messages>, 2) order by 1",),
        **SEARCH_CALLS,
    }
)
"""By schema and name."""
