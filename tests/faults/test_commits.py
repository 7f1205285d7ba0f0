"""What is made of rows that stand does not wait for the disk; what somebody is told does."""

from __future__ import annotations

import asyncpg

from tests.support.content.finished import all_done
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, remember
from tests.support.waiting import until

WATCHED = """
create table public.commits (what text, setting text);
create function public.watch() returns trigger language plpgsql as $$
begin
    insert into public.commits values (tg_table_name, current_setting('synchronous_commit'));
    return null;
end
$$;
create trigger watch after insert on memoryd.entries execute function public.watch();
create trigger watch after insert on public.memory_associations execute function public.watch();
create trigger watch after insert on memoryd.lexeme_statistics execute function public.watch();
create trigger watch after insert on public.agent_memory execute function public.watch();
create trigger watch after update of embedding on memoryd.lexicon execute function public.watch();
create trigger watch after update of status on public.memory_requests execute function public.watch();
"""


async def test_what_its_jobs_make_again_does_not_wait_for_the_disk(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await connection.execute(WATCHED)
    await connection.execute(
        "insert into agent_commands (agent_id, message, output, exit_code, status) "
        "values ('alice', 'count the cranes', 'seven', 0, 'completed')"
    )
    await connection.execute("truncate commits")
    await daemons.start()
    await remember(connection, "the harbour has seven cranes")
    await remember(connection, "the harbour has a lighthouse beside its cranes")
    await connection.execute(
        "insert into memory_requests (kind, agent_id, query) values ('recall', 'alice', 'cranes')"
    )
    await until(connection, "select exists (select from memory_requests where status = 'done')")
    await all_done(connection)
    assert await column(connection, "select distinct what || ' ' || setting from commits order by 1") == [
        "agent_memory off", "agent_memory on", "entries off", "lexeme_statistics off", "lexicon off",
        "memory_associations off", "memory_requests on",
    ]  # fmt: skip
