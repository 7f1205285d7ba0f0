"""Every page, in a real browser: whoever reads it, on whatever, by whatever means, finds their way."""

from __future__ import annotations

import base64
import io
from collections.abc import AsyncIterator

import pypdf
import pytest
import pytest_asyncio
from selenium.webdriver import ActionChains, Keys

from tests.support.repository import ROOT
from tests.support.services.browser import NARROWEST, SCREEN, TELEPHONE, Browser
from tests.support.services.every_page import addresses, unknown
from tests.support.services.web_pages import Reader, served

pytestmark = pytest.mark.asyncio(loop_scope="module")

AXE = (ROOT / "tests/data/axe.min.js").read_text("utf-8")
# Nothing to load first: a page may have neither sounds nor styles from elsewhere.
FAULTS = """
const [only, done] = arguments;
axe.run(document, {preload: false, resultTypes: ["violations"], ...only}).then((found) => done(found.violations
    .map((v) => [v.impact, v.id, v.nodes.length, v.nodes[0].target.join(" "), v.nodes[0].failureSummary])));
"""
# What depends on the width of the window, or on light and dark; all else is the same in both.
LOOKS = {"runOnly": ["color-contrast", "link-in-text-block", "scrollable-region-focusable"]}
QUIET = "return document.readyState === 'complete' && !document.querySelector('.htmx-request')"
# Timers are run by the test, and each request is counted in the moment in which it is sent.
COUNTED = """
window.timers = [];
window.setInterval = (work) => timers.push(work);
window.sent = 0;
const send = XMLHttpRequest.prototype.send;
XMLHttpRequest.prototype.send = function (...body) { window.sent += 1; return send.apply(this, body); };
"""
HIDDEN = """
const before = sent;
Object.defineProperty(document, "visibilityState", {configurable: true, get: () => "hidden"});
timers.forEach((work) => work());
return sent - before;
"""
SHOWN = """
const before = sent;
delete document.visibilityState;
timers.forEach((work) => work());
return sent - before;
"""
# What reaches beyond the window and is in nothing that scrolls; the page itself, too.
OVER = """
const within = ".scroll, pre, .said, .prose table, .unseen";
const beyond = [...document.querySelectorAll("main *")].filter((e) => e.checkVisibility() && !e.closest(within)
    && e.getBoundingClientRect().right > innerWidth + 1);
const over = document.documentElement.scrollWidth - innerWidth;
return [...(over > 0 ? [over] : []), ...beyond.map((e) => e.outerHTML.slice(0, 120))];
"""
LISTEN = """
window.reached = [];
window.wanted = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")]
    .filter((e) => e.checkVisibility() && !e.disabled && e.tabIndex >= 0);
document.addEventListener("focusin", (event) => {
    const style = getComputedStyle(event.target);
    reached.push([event.target, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0]);
});
"""
# What the keyboard reaches comes in the order of the page, from its beginning; each with a mark.
REACHED = """
const found = [...new Set(reached.map(([e]) => e))].filter((e) => wanted.includes(e));
const few = found.length < Math.min(wanted.length, 25);
const wrong = wanted.find((e, n) => n < found.length ? e !== found[n] : few);
// Behind the last one the browser begins again by itself, which is no key that was pressed in the page.
const firsts = reached.filter(([e], n) => n === reached.findIndex(([other]) => other === e));
const unmarked = firsts.find(([e, marked]) => !marked && e.id !== "main");
return [found[0]?.className, wrong?.outerHTML, unmarked?.[0].outerHTML];
"""


PARTS = 3
"""The pages are visited by so many tests, which run beside each other."""
Faults = list[tuple[object, ...]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def empty(url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reader]:
    """The pages of a database with nothing in it."""
    async with served(url, tmp_path_factory.mktemp("empty"), "--edit") as reader:
        yield reader


def read(browser: Browser, only: dict[str, list[str]] | None = None) -> Faults:
    """What is wrong for who sees badly, or little at once."""
    return [*map(tuple, browser.wait_for(FAULTS, only)), *too_wide(browser)]


def too_wide(browser: Browser) -> Faults:
    """What sticks out of the window."""
    return [("too wide", over) for over in browser.run(OVER)]


def walked(browser: Browser) -> Faults:
    """What is wrong for who has a keyboard alone."""
    browser.run(LISTEN)
    # More than there are: a region that scrolls is reached, too.
    presses = min(35, browser.run("return wanted.length") + 10)
    ActionChains(browser.driver).send_keys(Keys.TAB * presses).perform()
    first, wrong, unmarked = browser.run(REACHED)
    return [] if first == "skip" and wrong is None and unmarked is None else [(first, wrong, unmarked)]


def printed(browser: Browser) -> Faults:
    """What is wrong on paper: the title is there, and nothing of the screen."""
    browser.tell("Emulation.setEmulatedMedia", media="print")
    return _on_paper(browser, browser.text)


def _on_paper(browser: Browser, text: str) -> Faults:
    title = str(browser.run("return document.querySelector('h1:not(.unseen), h2').innerText"))
    whole = title.split(maxsplit=1)[0] in text and len(text) > len(title) + 10
    return [] if whole and "Sign out" not in text else [("printed", title, text)]


def hidden(browser: Browser) -> Faults:
    """What is asked for while nobody sees the page: nothing; and again once somebody does."""
    browser.until(QUIET)
    every = browser.run("return document.querySelectorAll('[data-every]').length")
    asked = (browser.run(HIDDEN), browser.run(SHOWN))
    browser.until(QUIET)
    return [] if asked == (0, every) else [("asked while hidden, when seen again", asked, every)]


async def test_every_page_has_an_example() -> None:
    assert unknown() == [], "name the rows of these paths in tests/support/services/every_page.py"


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_page_is_for_everybody(browser: Browser, few: Reader, part: int) -> None:
    browser.sign_in(few)
    faults: Faults = []
    with browser.beginning_with(AXE), browser.beginning_with(COUNTED):
        for path in addresses()[part::PARTS]:
            browser.look(width=TELEPHONE, dark=True)
            browser.open(path)
            found = read(browser)
            for width in (NARROWEST, SCREEN):
                browser.look(width=width)
                found += read(browser, LOOKS)
            for way in (walked, hidden, printed):
                found += way(browser)
            faults += [(path, *fault) for fault in found]
    faults += [(said,) for said in browser.complaints()]
    faults += [(url,) for url in browser.requested() if not url.startswith((few.address, "data:image/"))]
    assert not faults, "\n".join(map(str, faults))


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_page_without_rows_can_be_read_by_everybody(
    browser: Browser, empty: Reader, part: int
) -> None:
    found = {path: (await empty.http.get(path)).status_code for path in addresses()}
    missing = [path for path, status in found.items() if status == 404]
    assert missing
    browser.sign_in(empty)
    browser.look(width=TELEPHONE)
    faults: Faults = []
    with browser.beginning_with(AXE):
        # Of those that have no row, which all say the same, one.
        for path in [path for path in found if path not in missing[1:]][part::PARTS]:
            browser.open(path)
            faults += [(path, *fault) for fault in read(browser)]
    # A row that is not there is an answer too, of which a browser complains.
    faults += [(said,) for said in browser.complaints() if "status of 404" not in said]
    faults += [(url,) for url in browser.requested() if not url.startswith((empty.address, "data:image/"))]
    assert not faults, "\n".join(map(str, faults))


@pytest.mark.parametrize("path", ["/memories", "/graph"])
async def test_the_title_is_on_the_first_page_of_paper(browser: Browser, few: Reader, path: str) -> None:
    browser.sign_in(few)
    browser.open(path)
    paper = pypdf.PdfReader(io.BytesIO(base64.b64decode(browser.tell("Page.printToPDF")["data"]))).pages
    text = "\n".join(paper[n].extract_text() for n in sorted({0, len(paper) - 1}))
    assert _on_paper(browser, text) == []


async def test_the_menu_of_a_telephone_shows_where_one_is(browser: Browser, few: Reader) -> None:
    browser.sign_in(few)
    browser.look(width=TELEPHONE)
    for path in ("/memories", "/trail"):
        browser.open(path)
        assert browser.run("return document.querySelector('.top nav').scrollWidth > innerWidth")
        [left, right] = browser.run(
            "const at = document.querySelector('.top [aria-current]').getBoundingClientRect(); return [at.left, at.right]"
        )
        assert 0 <= left < right <= TELEPHONE, path


@pytest.mark.parametrize("width", [TELEPHONE, SCREEN])
async def test_a_word_that_is_led_to_stands_below_the_menu(browser: Browser, few: Reader, width: int) -> None:
    browser.sign_in(few)
    browser.look(width=width)
    browser.open("/words#audit-trail")
    [word, menu] = browser.run(
        "const at = (what) => document.querySelector(what).getBoundingClientRect();"
        "return [at('dt:target').top, at('.top').bottom]"
    )
    assert menu <= word < 2 * menu


async def test_a_question_on_a_telephone_has_a_line_of_its_own(browser: Browser, few: Reader) -> None:
    browser.sign_in(few)
    browser.look(width=TELEPHONE)
    browser.open("/recall")
    assert browser.run("return document.querySelector('[name=q]').clientWidth") > TELEPHONE / 2


async def test_a_form_that_is_answered_by_a_file_says_that_it_was_sent(browser: Browser, few: Reader) -> None:
    browser.sign_in(few)
    browser.open("/users")
    browser.press("td a")
    sent = "return document.querySelector('[data-sent]').checkVisibility()"
    assert not browser.run(sent)
    browser.run("document.querySelector('form[action$=copy] button').click()")
    browser.until(sent)


@pytest.mark.parametrize("path", ["/memories", "/conversations", "/documents", "/knowledge", "/trail"])
async def test_a_list_on_a_telephone_begins_with_the_text(browser: Browser, few: Reader, path: str) -> None:
    browser.sign_in(few)
    browser.look(width=TELEPHONE)
    browser.open(path)
    [left, right] = browser.run(
        "const at = document.querySelector('td.text').getBoundingClientRect(); return [at.left, at.right]"
    )
    assert 0 <= left < right
    assert left < TELEPHONE / 4


async def test_the_keyboard_skips_to_what_a_page_shows(browser: Browser, few: Reader) -> None:
    browser.sign_in(few)
    browser.open("/memories")
    ActionChains(browser.driver).send_keys(Keys.TAB, Keys.ENTER, Keys.TAB).perform()
    assert browser.run("return document.querySelector('main').contains(document.activeElement)")
    assert browser.run("return document.querySelector('a[rel=next]') !== null"), (
        "a list that goes on was seen"
    )
