"""Calls of the functions of the search, with requests as recall makes them and as a client may forge them.

What stands in angle brackets: see tests.support.access.calls.
"""

from __future__ import annotations

from collections.abc import Mapping

ASKED = (
    "'<words>'",
    "'<words>', 'alice'",
    "'<words>', '_shared', '<other>'",
    "'<words>', null, '<other>'",
    "'<words>', null, '<me>', <vector>, 1000",
    "'<words>', null, null, <vector>, 1000, null, '{\"project\": \"work\"}'",
    "'<words>', 'alice', '<other>', <vector>, 1000",
)

USERS = ("'<other>'", "'<me>'", "null")
NEAR = """'[{"lexeme": "secret", "neighbour": "recip", "similarity": 0.9}]'"""
YES_NO = ("true", "false")
OPTIONS = (
    '{"project": "work"}',
    '{"since": "2020-01-01", "roles": ["user", "system"], "around": 10, "min_score": 0.01}',
    '{"until": "2020-01-01", "speakers": ["Bob"]}',
)
AROUND = '{"around": 2}'
CONTEXT_OPTIONS = ("{}", '{"project": "x", "exclude_session": "00000000-0000-0000-0000-000000000001"}')


def asked(name: str) -> tuple[str, ...]:
    """Calls of recall(), or of a function with its arguments."""
    return tuple(f"select * from {name}({arguments})" for arguments in ASKED) + tuple(
        f"select * from {name}('<words>', 'alice', match_count => 1000, options => '{options}')"
        for options in OPTIONS
    )


def request(
    *,
    words: str = "<words>",
    agent: str = "null",
    user: str = "null",
    vector: str = "<vector>",
    sources: str = "null",
    wanted: str = "{}",
    options: str = "{}",
    near: str = "null",
) -> str:
    """A request, as SQL."""
    return (
        f"memoryd.recall_request('recall', '{words}', {agent}, {user}, {vector}, 1000, {sources}, '{wanted}', "
        f"'{options}', {near})"
    )


# What a client may write into a request by itself: the rights of a service, all scopes, another user's.
FORGED = tuple(
    f"jsonb_populate_record({request()}, '{fields}')"
    for fields in (
        '{"reader": {"user_id": "<other>", "privileged": true, "is_service": true}, "scopes": null, "reach": 4000}',
        '{"reader": {"user_id": "<other>", "privileged": false, "is_service": false}, "unowned": false}',
        '{"on_behalf": "<other>"}',
        '{"on_behalf": "<other>", "about": "<other>"}',
        '{"about": "<other>", "access": {"user_id": "<other>", "user_role": "admin"}, "groups": [1]}',
    )
)
# Nor do the ids of others' rows open these.
OF_ALL_IDS = tuple(
    f"jsonb_populate_record({request(agent=agent, user=user)}, "
    "jsonb_build_object('ids', <agent_memory> || <conversation_messages> || <memory_chunks>))"
    for agent in ("'alice'", "null")
    for user in USERS
)
SEARCHES = (
    *(
        request(words=words, agent=agent, user=user, vector=vector, sources=sources, wanted=wanted, near=near)
        for words in ("<words>", "Speaker pregnancy")
        for agent in ("'alice'", "null")
        for user in USERS
        for sources in ("null", "'{knowledge}'")
        for vector in ("null", "<vector>")
        for near in ("null", NEAR)
        for wanted in ("{}", '{"project": "work"}')
    ),
    *(request(options=options, user=user) for options in OPTIONS for user in USERS),
    *OF_ALL_IDS,
    *FORGED,
)


SEARCH_CALLS: Mapping[str, tuple[str, ...]] = {
    "memoryd.show_pieces": (
        f"select * from memoryd.show_pieces({request(options=AROUND)}, <conversation_messages>) order by 1",
    ),
    "memoryd.embeds_here": ("select memoryd.embeds_here()",),
    "memoryd.recall_request": (f"select ({request()}).count",),
    "memoryd.find": tuple(f"select * from memoryd.find({each}) order by 1, 2" for each in SEARCHES),
    "memoryd.rank_keys": tuple(
        f"select id from memoryd.rank_keys({request(user=user)}, <agent_memory>) where score > 0 order by 1"
        for user in USERS
    ),
    "memoryd.best_rows": tuple(
        f"select * from memoryd.best_rows({each}, array(select row('memory', i, null, 0, null, null, now(), "
        "1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, null)::memoryd.search_result from unnest(<agent_memory>) i))"
        for each in FORGED
    ),
    "memoryd.search": tuple(
        f"select * from memoryd.search({each})"
        for each in (*(request(options=AROUND, user=user) for user in USERS), *FORGED)
    ),
    "memoryd.search_prompt": tuple(
        f"select * from memoryd.search_prompt({each})"
        for each in (*(request(options=AROUND, user=user) for user in USERS), *FORGED)
    ),
    "memoryd.log_recall": tuple(
        f"select memoryd.log_recall({each}, array(select row('memory', i, null, 0, null, null, now(), "
        "1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, null)::memoryd.search_result from unnest(<agent_memory>) i), now())"
        for each in FORGED
    ),
    "memoryd.recall_and_log": tuple(
        f"select * from memoryd.recall_and_log({each})"
        for each in (*(request(user=user) for user in USERS), *FORGED)
    ),
}
"""By schema and name."""
