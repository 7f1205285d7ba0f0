"""Help beside the words of the pages: from the glossary, also where memoryd is installed."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from selenium.webdriver.common.by import By

from plugins.web.render import FOLDER, terms
from tests.support.repository import ROOT
from tests.support.services.browser import Browser
from tests.support.services.web_pages import Reader

pytestmark = pytest.mark.asyncio(loop_scope="module")

GLOSSARY = ROOT / "docs/glossary.md"


async def test_each_word_that_a_page_explains_is_in_the_glossary() -> None:
    used = {
        word
        for file in (FOLDER / "templates").rglob("*.html")
        for word in re.findall(r'\bterm\("([^"]+)"', file.read_text("utf-8"))
    }
    assert used
    assert used - terms().keys() == set(), "add a row to docs/glossary.md"
    rows = [line for line in GLOSSARY.read_text("utf-8").splitlines() if line.startswith("| ")]
    assert len(set(terms().values())) == len(
        [row for row in rows if not row.startswith(("| word |", "|---"))]
    )
    assert [term.word for term in terms().values() if re.search(r"[`*\[\]]|\.md", term.meaning)] == []


async def test_the_wheel_has_the_glossary(tmp_path: Path) -> None:
    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as files:
        assert files.read("memoryd/plugins/web/glossary.md") == GLOSSARY.read_bytes()


async def test_a_word_leads_to_what_it_means(browser: Browser, few: Reader) -> None:
    browser.sign_in(few)
    browser.open("/trail")
    leaf = browser.driver.find_element(By.LINK_TEXT, "leaf")
    assert "Without the salt it reveals nothing" in str(leaf.get_attribute("title"))
    leaf.click()
    browser.until(
        "return location.pathname === '/words' && document.querySelector('dt:target')?.innerText === 'leaf'"
    )
