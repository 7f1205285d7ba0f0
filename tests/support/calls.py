"""Calls of every function that an end user, or support, may execute: with others' ids, others' scopes and everybody's words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

EXECUTABLE = """
select p.oid::regprocedure::text as signature, (n.nspname || '.' || p.proname) as name
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where n.nspname in ('public', 'memoryd') and has_function_privilege($1, p.oid, 'execute')
  and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
"""

VECTOR = "('[1' || repeat(',0', 255) || ']')::{vector}.vector"
SCOPES = (
    "null",
    "array[0::bigint]",
    "array[memoryd.scope_of('{other}', null)]",
    "array[memoryd.scope_of(null, 'alice'), memoryd.scope_of(null, '_shared'), 0]",
    "array[memoryd.scope_of('{me}', null), memoryd.scope_of('{other}', null), 0, 0]",
)
WORDS = "Secret recipe of markann, markbob, markagents, Speaker pregnancy since May"
TERMS = (
    "array(select hashtextextended(l, s) from unnest('{{secret,recip,messag,chunk}}'::text[]) l, unnest({scopes}) s)",
    "array(select hashtextextended(l, s) from unnest('{{secret}}'::text[]) l, unnest({scopes}) s)",
)
WEIGHTS = "(select q.weights from memoryd.question('" + WORDS + "', null, 1500, null) q)"
ASKED = (
    "'{words}'",
    "'{words}', 'alice'",
    "'{words}', '_shared', '{other}'",
    "'{words}', null, '{other}'",
    "'{words}', null, '{me}', {vector_of}, 1000",
    "'{words}', null, null, {vector_of}, 1000, null, '{{\"context\": \"work\"}}'",
    "'{words}', 'alice', '{other}', {vector_of}, 1000",
)


def _scoped(call: str) -> tuple[str, ...]:
    return tuple(call.replace("{scopes}", scopes) for scopes in SCOPES)


def _find(source: str) -> tuple[str, ...]:
    terms, pair = (t.replace("{{", "{").replace("}}", "}") for t in TERMS)
    return tuple(
        f"select source, id, lexical, similarity, prior, session_id, speaker from memoryd.find_{source}({scopes}, {WEIGHTS}, "
        f"{terms.replace('{scopes}', scopes)}, {pair.replace('{scopes}', scopes)}, {{vector_of}}, {user}, {unowned}, null, '{{{{}}}}')"
        for scopes in SCOPES[1:]
        for user, unowned in (("null", "false"), ("'{other}'", "false"), ("null", "true"))
    )


def _asked(name: str) -> tuple[str, ...]:
    return tuple(f"select * from {name}({arguments})" for arguments in ASKED)


def _each(call: str, key: str) -> tuple[str, ...]:
    """A call for the id of each row of a table: `{table.key}` stands for them all."""
    return (f"select r.* from unnest({{{key}}}::uuid[]) with ordinality as i(id, place) cross join lateral {call} r order by i.place",)


SOURCES = {
    "memory": "agent_memory",
    "conversation": "conversation_messages",
    "document": "memory_chunks",
    "knowledge": "shared_knowledge",
    "insight": "dream_insights",
}

PURE = frozenset(
    f"memoryd.{name}"
    for name in (
        "bm25", "check_match", "grants_access", "kind_weight", "lexemes_of", "prior_of", "recency", "refuse", "relevance",
        "says_when", "scope_of", "search_terms", "sparse_index", "weigh_text",
    )
) | {"public.extract_keywords"}  # fmt: skip
"""What is reckoned from the arguments alone."""

CALLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "public.build_context": (
            "select build_context('alice', '{words}')",
            "select build_context('_shared', '{words}')",
        ),
        "public.erase_user_memory": (
            "select erase_user_memory('{other}')",
            "select erase_user_memory(null)",
            "select erase_user_memory('{me}')",
        ),
        "public.explain_recall": _asked("explain_recall"),
        "public.export_user_memory": (
            "select export_user_memory('{other}')",
            "select export_user_memory(null)",
            "select export_user_memory('{me}')",
        ),
        "public.load_context": _each("load_context(i.id, 100)", "conversation_sessions"),
        "public.match_memory": (
            "select * from match_memory({vector_of}, -1, 100)",
            "select * from match_memory({vector_of}, -1, 100, null, '{other}')",
            "select * from match_memory({vector_of}, -1, 100, null, null)",
        ),
        "public.recall": _asked("recall"),
        "public.reset_session": _each("reset_session(i.id)", "conversation_sessions"),
        "memoryd.answer": tuple(
            f"select memoryd.answer('{kind}', 'alice', {user}, '{{words}}', '{{{{}}}}', {{vector_of}}, null)"
            for kind in ("context", "recall", "export", "erase")
            for user in ("'{other}'", "'{me}'", "null")
        ),
        "memoryd.caller_access": ("select memoryd.caller_access()",),
        "memoryd.caller_id": ("select memoryd.caller_id()",),
        "memoryd.caller_serves": ("select memoryd.caller_serves()",),
        "memoryd.compose_context": tuple(
            f"select memoryd.compose_context('alice', '{{words}}', {user}, {only}, {{vector_of}}, null)"
            for user in ("'{other}'", "'{me}'", "null")
            for only in ("true", "false")
        ),
        **{f"memoryd.find_{source}": _find(source) for source in SOURCES},
        "memoryd.lists_to_probe": tuple(
            c for source in SOURCES for c in _scoped(f"select memoryd.lists_to_probe('{source}', {{scopes}})")
        ),
        "memoryd.memory_is_off": ("select memoryd.memory_is_off('{other}')", "select memoryd.memory_is_off(null)"),
        **{
            f"memoryd.nearest_{source}": tuple(
                c
                for probes in ("null", "100")
                for c in _scoped(f"select memoryd.nearest_{source}({{scopes}}, {{vector_of}}, 1000, {probes})")
            )
            for source in SOURCES
        },
        "memoryd.note_admin_read": tuple(f"select memoryd.note_admin_read('agent_memory', {u})" for u in ("'{other}'", "null")),
        "memoryd.note_read": (
            "select memoryd.note_read('{other}', 'alice', 'recall', 3, 5)",
            "select memoryd.note_read(null, 'alice', 'recall', 3, 5)",
        ),
        "memoryd.owns_session": _each("memoryd.owns_session(i.id)", "conversation_sessions"),
        "memoryd.question": tuple(
            c for words in ("{words}", "Speaker pregnancy") for c in _scoped(f"select * from memoryd.question('{words}', {{scopes}}, 1500, null)")
        ),
        "memoryd.scopes_asked": ("select * from memoryd.scopes_asked('alice', '{other}', false)",),
        "memoryd.score_memories": tuple(
            f"select * from memoryd.score_memories({agents}, {user}, {only}, '{{{{secret,recipe}}}}', {{vector_of}}, 250, 100)"
            for agents in ("'{{alice,_shared}}'", "null")
            for user in ("'{other}'", "null")
            for only in ("true", "false")
        ),
        "memoryd.search": tuple(c for c in _asked("memoryd.search") if c.count("vector_of")),
        **{
            f"memoryd.show_{source}": (f"select * from memoryd.show_{source}({{{table}}}::uuid[])",)
            for source, table in SOURCES.items()
        },
    }
)
