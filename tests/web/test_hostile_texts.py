"""Whatever users store or ask, a page shows it as text: it becomes no element, no attribute, no script, no other address."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from tests.support.content.hostile import PAYLOADS, id_of
from tests.support.services.browser import Browser
from tests.support.services.every_page import address, addresses, routes
from tests.support.services.web_pages import Reader

pytestmark = pytest.mark.asyncio(loop_scope="module")

SOME = range(0, len(PAYLOADS), 7)
"""Of the 20 ways to run and the 10 to break out, each is among them."""
WHOLE = ("/memories", "/conversations", "/documents", "/knowledge")
"""Lists that show enough of each text for a payload."""
DANGERS = """
const dangers = (page) => [...page.querySelectorAll("*")].flatMap((e) => [
    ...(/^(iframe|frame|object|embed|applet|base|style|portal)$/i.test(e.tagName) ? [e.outerHTML] : []),
    ...(/^script$/i.test(e.tagName) && !e.getAttribute("src")?.startsWith("/static/") ? [e.outerHTML] : []),
    ...[...e.attributes].filter((a) => /^(on|hx-on|style$|srcdoc$)/i.test(a.name)
        || /^(href|src|action|formaction|data|.*:href|hx-get|hx-post|hx-push-url)$/i.test(a.name)
           && !/^([/#?](?![/\\\\])|$|true$|data:image\\/svg)/.test(a.value)
        || /^hx-(vals|vars|headers)$/i.test(a.name) && /js:|javascript:/i.test(a.value)
        || a.name === "http-equiv" && a.value === "refresh"
        ).map((a) => `${e.tagName} ${a.name}=${a.value}`)
]);
const fields = (page) => [...page.querySelectorAll("form[method=get], form:not([method])")]
    .flatMap((form) => [...form.elements]).map((e) => e.name).filter((name) => name);
const text = (page) => page.body.textContent.replace(/\\s+/g, " ");
"""
HERE = (
    DANGERS
    + """
return [window.__xss, dangers(document), text(document), document.querySelector("a[rel=next]")?.href];
"""
)
# In groups, so that the server is not asked for all of them at once.
THERE = (
    DANGERS
    + """
const [paths, done] = arguments;
const read = async (path) => {
    const answer = await fetch(path);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    return [path, answer.status, dangers(page), text(page), fields(page)];
};
(async () => {
    const found = [];
    for (let n = 0; n < paths.length; n += 4) found.push(...await Promise.all(paths.slice(n, n + 4).map(read)));
    done(found);
})();
"""
)
COMPUTED = re.compile(rf"(?<![0-9a-f-]){7777 * 7777}(?![0-9a-f-])")
"""What a template would make of a payload; within an id it says nothing."""


async def test_no_page_runs_what_is_stored_from_its_first_to_its_last(
    browser: Browser, hostile: Reader
) -> None:
    browser.sign_in(hostile)
    faults: list[object] = []
    for path in addresses():
        seen, onwards = "", path
        while onwards is not None:
            browser.open(onwards)
            ran, dangers, text, further = browser.run(HERE)
            if ran or dangers:
                faults.append((onwards, ran, dangers))
            seen += text
            onwards = further
        assert COMPUTED.search(seen) is None, path
        if path in WHOLE:
            missing = [p for p in PAYLOADS if " ".join(p.split()) not in seen]
            assert missing == [], path
    assert faults + browser.complaints() == []
    assert [url for url in browser.requested() if "evil" in url] == []


async def test_every_payload_is_shown_as_text(browser: Browser, hostile: Reader) -> None:
    browser.sign_in(hostile)
    browser.open("/memories")
    asked = {
        path: PAYLOADS[n]
        for route in routes()
        if "{" in route.path
        for n in SOME
        if (path := address(route, n)) is not None
    }
    faults = []
    for path, status, dangers, text, _fields in browser.wait_for(THERE, list(asked)):
        if status != 200 or dangers or " ".join(asked[path].split()) not in text:
            faults.append((path, status, dangers, asked[path]))
    assert faults == []


async def test_what_is_asked_is_shown_as_text_or_refused(browser: Browser, hostile: Reader) -> None:
    browser.sign_in(hostile)
    paths = []
    for path, *_, fields in browser.wait_for(THERE, [r.path for r in routes() if "{" not in r.path]):
        for number, name in enumerate(sorted({*fields, "before", "next"})):
            paths += [f"{path}?{name}={quote(PAYLOADS[n])}" for n in list(SOME)[number % 14 :: 14]]
    paths += [f"/sign-in?next={quote(PAYLOADS[n])}" for n in SOME]
    paths += [f"/{quote(PAYLOADS[n])}" for n in SOME]
    faults = [
        (path, status, dangers)
        for path, status, dangers, *_ in browser.wait_for(THERE, paths)
        if status >= 500 or dangers
    ]
    assert faults == []


async def test_what_is_sent_is_shown_as_text(hostile: Reader, browser: Browser) -> None:
    browser.sign_in(hostile)
    for text in (PAYLOADS[1], PAYLOADS[61]):
        browser.open(f"/memories/{id_of('memory', 5)}")
        # Of an earlier version: so the page shows what was typed.
        browser.run("document.querySelector('[name=version]').value = 'x'")
        browser.run("document.querySelector('[name=content]').value = arguments[0]", text)
        browser.press("[value=replace]")
        ran, dangers, shown, _ = browser.run(HERE)
        assert not ran
        assert dangers == []
        assert f"this is what you wrote: {text}" in " ".join(shown.split())
