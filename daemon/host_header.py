"""What the header Host names, for servers that answer to their own names alone: a page that a browser shows would get in by a
name of its own (DNS rebinding).

Promise: a header that no browser writes names nothing, whatever part of it looks like a name.
"""

from __future__ import annotations

import re

LOCAL = ("127.0.0.1", "localhost", "::1")

_HOST = re.compile(r"(\[[0-9a-f]*:[0-9a-f:.]*\]|[^\s:@/?#,;\\\[\]]+)(:[0-9]{0,5})?")


def name_in(host: str) -> str:
    """The name or address in lower case, without brackets and port; empty where there is none."""
    found = _HOST.fullmatch(host.strip().lower())
    return "" if found is None else found[1].strip("[]")
