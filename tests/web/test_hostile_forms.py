"""Every form of every page, sent as no page would send it, and by somebody else."""

from __future__ import annotations

import uuid
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, quote_from_bytes

import pytest

from tests.support.content.hostile import USER
from tests.support.content.index import index_rows
from tests.support.database.schemas import connected
from tests.support.rows import remember
from tests.support.services.every_page import addresses
from tests.support.services.web_pages import CSRF, Reader, served, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

MORE = ("/audit/rules/empty",)
"""Pages with forms that stand there after an audit."""
ODD = (
    b"", b"a\0b", b"\xed\xa0\x80", b"not-an-id", b"9" * 400, b"0001-01-01T00:00+14:00",
    b"9999-12-31T23:59-14:00", b'{"a": [1, null]}', str(USER).encode(),
)  # fmt: skip
REFUSED = (400, 404, 409)
ALONE = ("/sign-out", "/now/doctor", "/trail/verify", "/ask/")
"""Forms without a field of their own, or that lead to an address."""
ROWS = """
select md5(string_agg(t::text, '|' order by t.id)) from (
    select id, content, kind, valid_to::text, expires_at::text from agent_memory
    union all select id, content, title, status, outcome::text from shared_knowledge
    union all select id, insight, stale::text, null, null from dream_insights
    union all select id, content, status, null, null from documents
    union all select id, content, null, null, null from conversation_messages
    union all select id, title, null, null, null from conversation_sessions
    union all select id, reason, useful::text, null, null from memory_queries) t
"""

Form = tuple[str, list[tuple[str, str]]]
"""Where it goes, and its fields with what they hold."""


class Forms(HTMLParser):
    """The forms of a page, but those that only ask."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[Form] = []
        self._open = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._open = given.get("method") == "post" and not given["action"].startswith(ALONE)
            if self._open:
                self.found.append((given["action"], []))
        elif self._open and given.get("name", "csrf") != "csrf":
            self.found[-1][1].append((given["name"], given.get("value", "typed")))
        elif self._open and "selected" in given:
            name, _ = self.found[-1][1].pop()
            self.found[-1][1].append((name, given["value"]))

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "form"


async def forms_of(reader: Reader, url: str) -> list[tuple[str, Form]]:
    """Each form once, of all pages, with its page; with something that is found by an audit and by a question."""
    async with connected(url) as db:
        await index_rows(
            db, "memory", [await remember(db, text, user_id=USER) for text in ("N/A", "the ladder")]
        )
    await reader.send("/audit", {})
    await reader.read_done("/audit", "audit", lacks="It is looking:")
    found: dict[object, tuple[str, Form]] = {}
    for path in [*addresses(), *MORE]:
        for form in await forms_on(reader, path):
            found.setdefault(same(form), (path, form))
    return list(found.values())


async def forms_on(reader: Reader, path: str) -> list[Form]:
    """Those of one page; each button is one."""
    page = Forms((await reader.http.get(path)).text)
    forms = []
    for action, fields in page.found:
        rest = [field for field in fields if field[0] != "do"]
        forms += [(action, [*rest, ("do", value)]) for name, value in fields if name == "do"] or [
            (action, rest)
        ]
    return forms


def same(form: Form) -> object:
    """What a form keeps when its page is loaded again."""
    action, fields = form
    return action, tuple(name for name, _ in fields), dict(fields).get("do")


async def posted(reader: Reader, csrf: str, action: str, fields: list[tuple[str, bytes]]) -> tuple[int, str]:
    """The status, and what the page says."""
    body = "".join(f"&{quote(name)}={quote_from_bytes(value)}" for name, value in fields)
    answer = await reader.http.post(
        action,
        content=f"csrf={csrf}{body}".encode(),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    return answer.status_code, text_of(answer.text)


def odd(fields: list[tuple[str, str]], name: str) -> list[list[tuple[str, bytes]]]:
    """The form with something odd in one field, without it, and with it twice."""
    rest = [(n, v.encode()) for n, v in fields if n != name]
    had = [(n, v.encode()) for n, v in fields if n == name]
    return [*([*rest, (name, value)] for value in ODD), rest, [*rest, *had[:1], (name, b"!")]]


async def test_what_is_of_another_is_changed_by_no_form(hostile_url: str, tmp_path: Path) -> None:
    async with (
        connected(hostile_url) as db,
        served(hostile_url, tmp_path, "--edit") as support,
        served(hostile_url, tmp_path, "--edit", "--as-user", str(uuid.uuid4())) as stranger,
    ):
        forms = await forms_of(support, hostile_url)
        before = await db.fetchval(ROWS)
        token = CSRF.search(await stranger.get("/memories"))
        assert token is not None
        for _, (action, fields) in forms:
            if action not in ("/audit", "/dreams"):
                sent = [(name, value.encode()) for name, value in fields]
                status, said = await posted(stranger, token[1], action, sent)
                assert status in REFUSED, (action, sent, said)
        assert await db.fetchval(ROWS) == before


async def test_what_no_page_sends_is_answered_with_a_sentence(hostile_url: str, tmp_path: Path) -> None:
    async with served(hostile_url, tmp_path, "--edit") as reader:
        forms = await forms_of(reader, hostile_url)
        assert {"/audit", "/dreams", "/audit/rules/empty", "/audit/derived"} < {
            action for _, (action, _) in forms
        }
        token = CSRF.search(await reader.get("/dreams"))
        assert token is not None
        for path, form in forms:
            for name, _ in form[1]:
                # As it is now: one before may have been taken as it was.
                there = [now for now in await forms_on(reader, path) if same(now) == same(form)]
                for sent in [each for _, fields in there for each in odd(fields, name)]:
                    status, said = await posted(reader, token[1], form[0], sent)
                    assert status in (200, 303, *REFUSED), (form, name, sent, said)
                    assert "query argument" not in said, (form, name, sent, said)
    assert [line for line in reader.log if line["level"] == "error"] == []
