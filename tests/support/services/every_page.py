"""The pages of `memoryd web`, whichever there are: each with an address that shows rows of `hostile.py`."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from starlette.routing import Route

from plugins.web.app import PAGES
from tests.support.content.hostile import PAYLOADS, USER, id_of

# The word in the path of a page that shows one row, and the rows that it can show.
ROWS = {
    "memories": "memory", "conversations": "session", "documents": "document", "knowledge": "knowledge", "dreams": "dream",
    "insights": "insight", "trail": "anchor", "tasks": "command", "users": "user",
}  # fmt: skip
_TEXT = PAYLOADS[1]
# Pages that show something only when they are asked.
ASKED = {
    "/recall": [{"q": _TEXT, "user": str(USER), "agent": _TEXT}],
    "/context": [{"message": _TEXT, "user": str(USER), "agent": _TEXT}],
    "/graph": [{"memory": str(id_of("memory"))}, {"user": str(USER)}, {"agent": _TEXT}],
    "/audit": [{"user": str(USER)}],
    "/users": [{"q": _TEXT}],
    "/audit/derived": [{"kind": "memory", "id": str(id_of("memory"))}],
    "/memories": [{"agent": _TEXT, "source": _TEXT, "tag": _TEXT, "ended": "yes"}],
}


NO_PAGES = ("/graph/data", "/now/live", "/audit/rules/{rule}")
"""What scripts read: data, parts of a page. And what is there only after an audit of the session."""
ONLY_ASKED = ("/audit/derived",)
"""Pages that are none until they are asked something."""


def routes() -> list[Route]:
    """Of all pages, those that are read."""
    return [r for page in PAGES for r in page if "GET" in (r.methods or ()) and r.path not in NO_PAGES]


def address(route: Route, n: int = 0) -> str | None:
    """The page on the row of payload `n`; None where it is not known what could be in its path."""
    path = route.path
    while "{" in path:
        before, _, rest = path.partition("{")
        _, _, after = rest.partition("}")
        what = ROWS.get(before.strip("/").rpartition("/")[2])
        if what is None or (what == "user" and n):  # all payloads are of one user
            return None
        path = f"{before}{USER if what == 'user' else id_of(what, n)}{after}"
    return path


def unknown() -> list[str]:
    """Paths for which `ROWS` lacks a word."""
    return [r.path for r in routes() if address(r) is None]


def addresses(*, n: int = 0) -> list[str]:
    """Every page on the row of payload `n`, and once more as it is when it was asked."""
    found: list[str] = []
    for path in filter(None, (address(route, n) for route in routes())):
        if path not in ONLY_ASKED:
            found.append(path)
        found += [f"{path}?{urlencode(asked, quote_via=quote)}" for asked in ASKED.get(path, ())]
    return found
