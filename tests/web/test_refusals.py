"""What no page can be asked, and no form can say: each is answered with a sentence, and changes nothing."""

from __future__ import annotations

import uuid

import asyncpg
import pytest

from tests.support.rows import insert, remember
from tests.support.services.web_pages import Reader, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOBODY = "00000000-0000-4000-8000-000000000000"
ASKED = (
    ("/recall?q=x&user=ann", "user is no id"),
    ("/recall?q=x&count=0", "count is from 1"),
    ("/recall?q=x&count=2.5", "whole number"),
    ("/recall?q=x&count=nan", "count is from 1"),
    ("/recall?q=x&min_score=2", "min_score is from 0"),
    ("/recall?q=x&since=soon", "since is no time"),
    ("/recall?q=x&source=secrets", "unknown source secrets"),
    ("/recall?q=x&source=%00", "0x00"),
    ("/recall?q=x&role=root", "unknown role root"),
    ("/recall?q=x&org=x", "org is no id"),
    ("/recall?q=" + "x" * 8001, "8001 characters"),
    ("/context?agent=a&message=x&words=50", "words is from 100"),
    ("/context?agent=a&message=x&words=100.5", "whole number"),
    ("/context?agent=%00&message=x", "NUL"),
    ("/context?message=x&agent=" + "a" * 201, "201 characters"),
    ("/graph?memory=x", "no id"),
    ("/graph?kind=warm", "kind is one of"),
    ("/graph?least=2", "from 0 to 1"),
    ("/conversations?since=soon", "no time"),
    ("/conversations?before=x", "no position"),
    ("/documents?status=new", "status is one of"),
    ("/knowledge?tier=deep", "tier is one of"),
    ("/knowledge/decisions?org=x", "no id"),
    ("/dreams?before=soon", "no position"),
    ("/dreams/insights?confidence=2", "from 0 to 1"),
    ("/trail?before=x", "no position"),
    ("/trail?before=9999999999999999999", "no position"),
    ("/audit/derived?kind=star&id=x", "kind is one of"),
    ("/audit/derived?kind=memory&id=x", "id is no id"),
    ("/audit/derived?kind=memory", "Say which memory"),
    ("/audit/derived?kind=agent&id=%00", "NUL"),
)
MISSING = (
    f"/memories/{NOBODY}", f"/graph?memory={NOBODY}", f"/graph/data?memory={NOBODY}", f"/conversations/{NOBODY}",
    f"/documents/{NOBODY}", f"/knowledge/{NOBODY}", f"/dreams/{NOBODY}", f"/trail/{NOBODY}",
    f"/audit/derived?kind=memory&id={NOBODY}", "/audit/rules/duplicates",
)  # fmt: skip


async def test_what_cannot_be_asked_is_a_sentence(pages: Reader) -> None:
    for path, says in ASKED:
        assert says in await pages.read(path, status=400), path
    for form in ({"user": "x"}, {"since": "soon"}, {"agent": "a\0"}):
        assert (await pages.send("/audit", form)).status_code == 400, form


async def test_what_is_not_there_is_told_with_the_same_words(pages: Reader) -> None:
    for path in MISSING:
        assert "There is no such row, or you may not see it." in await pages.read(path, status=404), path


@pytest.mark.parametrize("page", ["memories", "knowledge"])
async def test_what_cannot_be_stored_is_refused_and_changes_nothing(
    pages: Reader, db: asyncpg.Connection, page: str
) -> None:
    if page == "memories":
        table, row = "agent_memory", await remember(db, f"stays as it is {uuid.uuid4()}", agent_id="strict")
    else:
        entry: dict[str, object] = {
            "title": "Stays",
            "content": "Stays",
            "category": "decision",
            "tier": "learning",
            "created_by": "sage",
        }
        table, row = "shared_knowledge", await insert(db, "shared_knowledge", entry)
    path = f"/{page}/{row}"
    before = await db.fetchrow(f"select * from {table} where id = $1", row)
    version = (await pages.get(path)).partition('name="version" value="')[2].partition('"')[0]
    for form, says in FORMS[page]:
        answer = await pages.send(path, {"version": version} | form)
        assert answer.status_code == 400, form
        assert says in text_of(answer.text), form
    assert await db.fetchrow(f"select * from {table} where id = $1", row) == before


CORRECT = {"do": "correct", "kind": "fact", "content": "x"}
REWORD = {"do": "reword", "title": "x", "content": "x", "confidence": "high"}
FORMS: dict[str, tuple[tuple[dict[str, str], str], ...]] = {
    "memories": (
        (CORRECT | {"content": "  "}, "says nothing"),
        (CORRECT | {"kind": "opinion"}, "kind is one of"),
        (CORRECT | {"content": "a\0b"}, "NUL"),
        (CORRECT | {"expires_at": "soon"}, "no time"),
        ({"do": "replace", "content": ""}, "says nothing"),
    ),
    "knowledge": (
        (REWORD | {"title": " "}, "a title and a text"),
        (REWORD | {"content": "a\0b"}, "NUL"),
        (REWORD | {"confidence": "sure"}, "confidence is one of"),
        (REWORD | {"content": "password: hunter2hunter2"}, "a password or key"),
        ({"do": "score", "success": "maybe"}, "yes or no"),
        ({"do": "correct", "content": ""}, "says what is right"),
        ({"do": "resolve"}, "Only a project"),
        ({"do": "burn"}, "does not say what to do"),
    ),
}
