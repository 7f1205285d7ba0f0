"""What is never sent: spans that say so, credentials, and files that the project's rules name."""

from __future__ import annotations

import os
import re
from fnmatch import translate

from daemon.hooks.regular import read_text

RULES = ".memorydignore"
MOST_RULES = 300
LONGEST_COMMAND, LONGEST_PATH = 2000, 500
ALWAYS = (
    ".env", ".env.*", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "*.tfvars", "id_rsa*", "id_ed25519*", "id_ecdsa*",
    ".netrc", ".pgpass", "*credentials*", "*secret*",
)  # fmt: skip
EVERYTHING = frozenset({"*", "/*", "**", "./*"})

PRIVATE = re.compile(r"<private>.*?(?:</private>|\Z)", re.DOTALL | re.IGNORECASE)
KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)
TOKENS = re.compile(
    r"\b(?:(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40}|glpat-[A-Za-z0-9_-]{20})[A-Za-z0-9_-]{0,200}"
    r"|sk-(?:ant-|proj-|or-)?(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_]{20,200}[A-Za-z0-9_-]{0,200}"
    r"|sk-(?:ant|proj|or)-[A-Za-z0-9_-]{20,300}"
    r"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,200}|whsec_[A-Za-z0-9+/=]{16,100}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,300}|xapp-[A-Za-z0-9-]{10,300}"
    r"|AIza[A-Za-z0-9_-]{35,60}|ya29\.[A-Za-z0-9_-]{20,300}|GOCSPX-[A-Za-z0-9_-]{20,60}"
    r"|SG\.[A-Za-z0-9_-]{16,100}\.[A-Za-z0-9_-]{16,100}|gsk_[A-Za-z0-9]{30,100}|shpat_[A-Za-z0-9]{20,60}"
    r"|(?:npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50}|hf_[A-Za-z0-9]{30})[A-Za-z0-9_-]{0,300}"
    r"|dop_v1_[a-f0-9]{40,80}|hvs\.[A-Za-z0-9_-]{20,200}|dckr_pat_[A-Za-z0-9_-]{20,60}|lin_api_[A-Za-z0-9]{20,60}"
    r"|AGE-SECRET-KEY-[A-Z0-9]{40,80}|\d{8,10}:[A-Za-z0-9_-]{35}"
    r"|eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,1000})"
)
HOOK_URL = re.compile(r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{10,100}")
LOGIN_IN_URL = re.compile(r"(://)[^\s/\"'`<>]{0,200}:[^\s/\"'`<>]{1,200}@")
HEADER = re.compile(
    r"(?i)\b(authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:basic|bearer|token)?\s{0,3})[^\s\"']{4,2000}"
)
BEARER = re.compile(r"(?i)\b(bearer\s{1,3})[a-z0-9._~+/-]{16,2000}=*")
COOKIE = re.compile(r"(?i)\b((?:set-)?cookie\s{0,3}:\s{0,3})[^\n\"']{4,4000}")
OPTION = re.compile(
    r"(?i)((?:--(?:password|passwd|pass|token|secret|api-key|auth)[= ]|(?:\s-u|--user)[= ]?[^\s:]{1,60}:"
    r"|\bmysql\b[^\n]{0,200}?\s-p))[^\s\"']{1,200}"
)
_NAME = (
    r"(?:password|passwd|passphrase|passwort|pass|pwd|secret|token|(?:api|access|account|private)[ _-]?key)"
)
VARIABLE = re.compile(
    r"((?:PASSWORD|PASSWD|PASS|PWD|SECRET|TOKEN|KEY)[A-Z0-9_]{0,40}=)(?![/~$\"'])[^\s;&|]{4,500}"
)
QUOTED = re.compile(
    rf"(?i)({_NAME}[\w.-]{{0,40}}[\"']?\s{{0,3}}(?::|=|:=|=>|\bis:?)\s{{0,3}})([\"'`])[^\"'`\n]{{4,300}}\2"
)
# A value in quotes counts whatever it is; another one where it has a letter and a digit, as passwords have and words have not.
ASSIGNED = re.compile(
    rf"(?i)({_NAME}[\w-]{{0,40}}[\"']?\s{{0,3}}(?::|=|:=|=>|\bis:?)\s{{0,3}})"
    r"(?=[^\s\"'`,;<>(){}]{0,64}[0-9])(?=[^\s\"'`,;<>(){}]{0,64}[a-z])(?![/~]|\$[{(])[^\s\"'`,;<>(){}]{6,300}"
)
UNSTORABLE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u200b-\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
SPLIT = re.compile(r"[\s\"'`=;|&<>(){}@:,]+")


def cleaned(text: object, most: int) -> str:
    """A text as it may be sent, at most `most` characters of it; "" for what is no text."""
    if not isinstance(text, str):
        return ""
    # A credential at the end of what is kept is looked at whole; one that is cut at the end of that is left out.
    text = UNSTORABLE.sub("\ufffd", PRIVATE.sub("[private]", text[: 2 * most + 10_000]))
    for pattern in (KEY_BLOCK, TOKENS, HOOK_URL):
        text = pattern.sub("[secret]", text)
    text = LOGIN_IN_URL.sub(r"\1[secret]@", text)
    text = QUOTED.sub(r"\1\2[secret]\2", text)
    for pattern in (HEADER, BEARER, COOKIE, OPTION, VARIABLE, ASSIGNED):
        text = pattern.sub(r"\1[secret]", text)
    return text[:most].strip()


class Rules:
    """Which files of a project are never named: by `.memorydignore`, one pattern a line, and by what is always left out."""

    def __init__(self, root: str) -> None:
        self._root = root
        lines = read_text(os.path.join(root, RULES), 20_000).lstrip("\ufeff").splitlines()[:MOST_RULES]
        given = [p for line in lines if (p := line.strip()) and p[0] != "#"]
        self.everything = not EVERYTHING.isdisjoint(given)
        patterns = [p.strip("/").lower()[:200] for p in (*ALWAYS, *given)]
        self._hidden = re.compile("|".join(translate(p) for p in patterns if p))

    def shown(self, path: str) -> str | None:
        """A file by its path within the project; None where it is private."""
        name = os.path.relpath(path, self._root) if os.path.isabs(path) else os.path.normpath(path)
        return None if self.hides(name) else name

    def hides(self, name: str) -> bool:
        """Whether a pattern fits this path, a part of it, or a folder on its way."""
        parts = [part for part in name[-LONGEST_PATH:].lower().split("/") if part not in ("", ".")][-20:]
        ways = ["/".join(parts[: n + 1]) for n in range(1, len(parts))]
        return any(self._hidden.match(one) for one in (*parts, *ways))

    def hides_in(self, text: str) -> bool:
        """Whether a text, such as a command, names a private file."""
        return any(self.hides(word) for word in SPLIT.split(text[:LONGEST_COMMAND]) if word)
