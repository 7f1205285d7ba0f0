"""The schema explains itself: every public thing has a comment."""

from __future__ import annotations

import re

import asyncpg

from tests.support.rows import column

OURS = "not exists (select from pg_depend d where d.objid = {} and d.deptype = 'e')"
RELATIONS = f"""
select c.relname::text from pg_class c
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm') and {OURS.format("c.oid")}
"""
FUNCTIONS = f"""
select p.oid::regprocedure::text from pg_proc p
where p.pronamespace = 'public'::regnamespace and {OURS.format("p.oid")}
"""


async def test_every_table_view_and_function_has_a_comment(scratch: asyncpg.Connection) -> None:
    assert len(await column(scratch, RELATIONS)) > 20
    assert len(await column(scratch, FUNCTIONS)) > 12
    mute = f"{RELATIONS} and obj_description(c.oid, 'pg_class') is null"
    assert await column(scratch, mute) == []
    assert await column(scratch, f"{FUNCTIONS} and obj_description(p.oid, 'pg_proc') is null") == []
    machinery = (
        "select c.relname::text from pg_class c where c.relnamespace = 'memoryd'::regnamespace "
        "and c.relkind in ('r', 'p', 'v') and c.relname <> 'migrations' and obj_description(c.oid, 'pg_class') is null"
    )
    assert await column(scratch, machinery) == []


async def test_comments_are_sentences_of_one_line(scratch: asyncpg.Connection) -> None:
    comments = await column(
        scratch,
        "select d.description from pg_description d join pg_class c on c.oid = d.objoid and d.classoid = 'pg_class'::regclass "
        "where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v') and d.objsubid = 0",
    )
    assert [text for text in comments if not re.fullmatch(r"\S[^\n]{10,}[.)]", str(text))] == []


async def test_row_level_security_is_on_and_forced_everywhere(scratch: asyncpg.Connection) -> None:
    open_ = f"{RELATIONS} and c.relkind in ('r', 'p') and not (c.relrowsecurity and c.relforcerowsecurity)"
    assert await column(scratch, open_) == []
    # A table without a policy for the service would be of no use to it.
    useless = (
        f"{RELATIONS} and c.relkind in ('r', 'p') and not exists (select from pg_policy p "
        "where p.polrelid = c.oid and 'memoryd_service'::regrole = any(p.polroles))"
    )
    assert await column(scratch, useless) == []
    assert await column(scratch, f"{RELATIONS} and c.relkind = 'm'") == []
