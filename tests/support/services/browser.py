"""A real browser, Chromium, that shows the pages of `memoryd web` and tells what went on in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.support.services.web_pages import Reader

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "needs Chromium and chromedriver: apt-get install chromium chromium-driver (Ubuntu: snap install chromium)"
# Nothing of its own over the network, and no window.
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions",
    "--window-size=1280,900",
)  # fmt: skip
TELEPHONE, NARROWEST = 390, 360
SCREEN = 1400
SECONDS = 60
"""Until what is waited for must be there."""
OFTEN = 0.02
"""Seconds between two looks: the browser, which answers them, does nothing else meanwhile."""


def programs() -> tuple[str, str] | None:
    """The browser and its driver; None where one is missing."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return None if browser is None or driver is None else (browser, driver)


class Browser:
    """One window."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver
        self.address = ""

    def open(self, path: str) -> None:
        """A page of the server that is visited, or a whole URL; with what it loads later."""
        self.driver.get(path if "://" in path else self.address.rstrip("/") + path)
        self.until("return !document.querySelector('[data-load][hidden], .htmx-request')")

    def sign_in(self, reader: Reader) -> None:
        """Visits a server by the URL that it printed."""
        self.address = reader.address
        self.driver.get(reader.sign_in + "&next=/memories")
        # The page that signs in leads on by itself.
        self.until("return location.pathname === '/memories' && document.readyState === 'complete'")

    @contextmanager
    def another_tab(self) -> Iterator[None]:
        """Meanwhile another tab is looked at, which is closed at the end."""
        first = self.driver.current_window_handle
        self.driver.switch_to.new_window("tab")
        other = self.driver.current_window_handle
        yield
        # chromedriver's own close() gives up after 20 seconds.
        self.driver.switch_to.window(first)
        self.tell("Target.closeTarget", targetId=other)
        WebDriverWait(self.driver, SECONDS, OFTEN).until(lambda driver: driver.window_handles == [first])

    def look(self, *, width: int = SCREEN, dark: bool = False) -> None:
        """How wide the window is, and whether the reader likes it dark."""
        self.tell(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.until(
            f"return innerWidth === {width} && matchMedia('(prefers-color-scheme: dark)').matches === {str(dark).lower()}"
        )

    def tell(self, command: str, **arguments: object) -> dict[str, Any]:
        """A command of the DevTools protocol, and its answer."""
        answer: dict[str, Any] = self.driver.execute_cdp_cmd(command, arguments)
        return answer

    def run(self, script: str, *arguments: object) -> Any:
        """What a script within the page returns."""
        return self.driver.execute_script(script, *arguments)

    @contextmanager
    def beginning_with(self, script: str) -> Iterator[None]:
        """Meanwhile this script runs in each page before its own do."""
        made = self.tell("Page.addScriptToEvaluateOnNewDocument", source=script)
        try:
            yield
        finally:
            self.tell("Page.removeScriptToEvaluateOnNewDocument", **made)

    def wait_for(self, script: str, *arguments: object) -> Any:
        """What a script within the page gives to its last argument, a function."""
        return self.driver.execute_async_script(script, *arguments)

    def until(self, script: str) -> None:
        """Waits until a script within the page returns something."""
        WebDriverWait(self.driver, SECONDS, OFTEN).until(lambda _driver: self.run(script))

    def press(self, selector: str) -> None:
        """Clicks on what leads to another page, and waits for that."""
        self.run("window.leaving = true")
        self.driver.find_element(By.CSS_SELECTOR, selector).click()
        self.until("return window.leaving === undefined && document.readyState === 'complete'")

    def until_it_has(self, part: str, *, lacks: str) -> None:
        """Waits until the page has this in its source and that no more: also where scripts may not run."""
        WebDriverWait(self.driver, SECONDS, OFTEN).until(
            lambda driver: part in driver.page_source and lacks not in driver.page_source
        )

    @property
    def text(self) -> str:
        """All that people can read now."""
        return str(self.run("return document.body.innerText"))

    def complaints(self) -> list[str]:
        """What the browser has said since it was last asked: errors, and what the policy of the page forbade."""
        said = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [line["message"] for line in said if line["level"] in ("SEVERE", "WARNING")]

    def requested(self) -> list[str]:
        """The URLs that were asked for since it was last asked, by whatever part of a page, but not by the browser's own."""
        events = (json.loads(line["message"])["message"] for line in self.driver.get_log("performance"))  # type: ignore[no-untyped-call]
        sent = (event["params"] for event in events if event["method"] == "Network.requestWillBeSent")
        return [each["request"]["url"] for each in sent if not each["documentURL"].startswith("chrome://")]


@contextmanager
def opened(browser: str, driver: str, folder: Path) -> Iterator[Browser]:
    """A browser whose profile is in the folder."""
    options = ChromeOptions()
    for option in (*OPTIONS, f"--user-data-dir={folder}"):
        options.add_argument(option)
    options.binary_location = browser
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # Of what it does, only what it asks for is looked at.
    options.add_experimental_option("perfLoggingPrefs", {"enableNetwork": True, "enablePage": False})
    chrome = Chrome(options=options, service=Service(driver))
    try:
        # A script may fetch hundreds of pages, on a machine that does much else.
        chrome.set_script_timeout(600)
        yield Browser(chrome)
    finally:
        chrome.quit()
