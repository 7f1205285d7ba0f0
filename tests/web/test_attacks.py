"""What another site, another tab, or who comes after can do with a browser that is signed in: nothing."""

from __future__ import annotations

from collections.abc import Iterator

import asyncpg
import pytest
from selenium.webdriver.common.by import By

from tests.support.rows import remember
from tests.support.services.browser import Browser
from tests.support.services.other_site import OtherSite, other_site
from tests.support.services.web_pages import Reader

pytestmark = pytest.mark.asyncio(loop_scope="module")

FROM = ("localhost", "127.0.0.1")
"""Another site, and another port of the same one, to which a browser sends strict cookies."""


@pytest.fixture
def evil() -> Iterator[OtherSite]:
    with other_site() as site:
        yield site


@pytest.mark.parametrize("host", FROM)
async def test_a_page_in_a_frame_shows_nothing(
    browser: Browser, pages: Reader, db: asyncpg.Connection, evil: OtherSite, host: str
) -> None:
    await remember(db, "the safe is behind the painting")
    browser.sign_in(pages)
    evil.page = f"<iframe src='{pages.address}memories' onload='document.title = 1'></iframe>"
    browser.open(f"http://{host}:{evil.port}/")
    browser.until("return document.title === '1'")
    assert any("frame-ancestors" in line for line in browser.complaints())
    browser.driver.switch_to.frame(0)
    assert "painting" not in browser.driver.page_source
    browser.driver.switch_to.default_content()


@pytest.mark.parametrize("host", FROM)
async def test_a_form_of_another_site_changes_nothing(
    browser: Browser, pages: Reader, db: asyncpg.Connection, evil: OtherSite, host: str
) -> None:
    row = await remember(db, "the alarm is set at ten")
    browser.sign_in(pages)
    browser.open(f"/memories/{row}")
    version = browser.run("return document.querySelector('[name=version]').value")
    where = f"{pages.address}memories/{row}"
    evil.page = (
        f"<form method=post action='{where}'><input name=do value=forget><input name=version value='{version}'></form>"
        "<script>document.forms[0].submit()</script>"
    )
    browser.open(f"http://{host}:{evil.port}/")
    browser.until(f"return location.href === '{where}' && document.readyState === 'complete'")
    assert "nothing was done" in browser.text
    evil.page = "<p>nothing yet</p>"
    browser.open(f"http://{host}:{evil.port}/")
    ended = browser.wait_for(
        "const [url, done] = arguments; fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include', "
        "body: new URLSearchParams({do: 'forget'})}).then((a) => done(a.type), (e) => done(String(e)))",
        where,
    )
    # What is refused carries a policy by which the other site does not even get an opaque answer.
    assert ended.startswith("TypeError")
    assert await db.fetchval("select count(*) from agent_memory where id = $1", row) == 1
    browser.open("/memories")
    assert "the alarm is set" in browser.text, "still signed in"


async def test_who_signed_out_leaves_nothing_to_go_back_to(
    browser: Browser, pages: Reader, db: asyncpg.Connection
) -> None:
    row = await remember(db, "the diagnosis came on Friday")
    browser.sign_in(pages)
    browser.open("/memories")
    browser.open(f"/memories/{row}")
    browser.press("footer form button")
    assert browser.run("return location.pathname") == "/sign-in"
    for _ in range(2):
        browser.driver.back()
        browser.until("return location.pathname === '/sign-in' && document.readyState === 'complete'")
        assert "diagnosis" not in browser.driver.page_source


async def test_a_text_survives_the_end_of_the_session(
    browser: Browser, pages: Reader, db: asyncpg.Connection
) -> None:
    row = await remember(db, "the tree is an oak")
    browser.sign_in(pages)
    browser.open(f"/memories/{row}")
    area = browser.driver.find_element(By.NAME, "content")
    area.send_keys(" and was typed for an hour")
    browser.driver.delete_all_cookies()
    browser.press("[value=replace]")
    assert "Your session has ended" in browser.text
    with browser.another_tab():
        browser.sign_in(pages)
    browser.driver.back()
    browser.until(
        "return document.querySelector('[name=content]') !== null && document.readyState === 'complete'"
    )
    area = browser.driver.find_element(By.NAME, "content")
    assert "typed for an hour" in str(area.get_property("value"))
    browser.press("[value=replace]")
    stored = await db.fetchval(
        "select n.content from agent_memory m join agent_memory n on n.id = m.superseded_by where m.id = $1",
        row,
    )
    assert stored == "the tree is an oak and was typed for an hour"


async def test_back_after_a_filter_shows_the_list_of_before(
    browser: Browser, pages: Reader, db: asyncpg.Connection
) -> None:
    await remember(db, "a goal that is shown", kind="goal", agent_id="back")
    await remember(db, "a fact that is filtered", kind="fact", agent_id="back")
    browser.sign_in(pages)
    browser.open("/memories?agent=back")
    browser.run("window.same = true")
    browser.driver.find_element(By.CSS_SELECTOR, "option[value=goal]").click()
    browser.until("return location.search.includes('kind=goal') && !document.querySelector('.htmx-request')")
    assert browser.run("return window.same"), "only the rows were loaded again"
    assert "a fact that" not in browser.text
    browser.driver.back()
    browser.until("return document.readyState === 'complete' && !location.search.includes('kind=goal')")
    browser.until("return document.body.innerText.includes('a fact that is filtered')")


async def test_it_works_without_scripts(browser: Browser, pages: Reader, db: asyncpg.Connection) -> None:
    row = await remember(db, "a goal without scripts", kind="goal", agent_id="plain")
    await remember(db, "a fact without scripts", kind="fact", agent_id="plain")
    browser.sign_in(pages)
    browser.tell("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open("/memories?agent=plain")
        browser.driver.find_element(By.CSS_SELECTOR, "option[value=goal]").click()
        browser.driver.find_element(By.CSS_SELECTOR, "form[action='/ask/memories'] button").click()
        browser.until_it_has("kind=goal", lacks="a fact without")
        browser.driver.find_element(By.LINK_TEXT, "a goal without scripts").click()
        area = browser.driver.find_element(By.NAME, "content")
        area.clear()
        area.send_keys("a goal that was corrected")
        browser.driver.find_element(By.CSS_SELECTOR, ".edit summary").click()
        browser.driver.find_element(By.CSS_SELECTOR, "[value=correct]").click()
        browser.until_it_has("a goal that was corrected", lacks="a goal without scripts")
    finally:
        browser.tell("Emulation.setScriptExecutionDisabled", value=False)
    assert (
        await db.fetchval("select content from agent_memory where id = $1", row)
        == "a goal that was corrected"
    )
