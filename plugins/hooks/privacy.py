"""Removes what is never sent: private spans, credentials, and files that the project's rules name."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from plugins.hooks.regular import read_text

RULES = ".memorydignore"
HIDDEN = "[secret]"
"""What stands in the place of a credential."""
MOST_RULES = 300
LONGEST_COMMAND, LONGEST_PATH = 2000, 500
ALWAYS = (
    ".env", ".env.*", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "*.tfvars", "id_rsa*", "id_ed25519*", "id_ecdsa*",
    ".netrc", ".pgpass", "*credentials*", "*secret*",
)  # fmt: skip
EVERYTHING = frozenset({"*", "/*", "**", "./*"})

# A tag in any case, with spaces and attributes, in wide letters or brackets, or escaped.
_OPENS = r"(?:[<\uff1c\ufe64\u2039\u3008]|&(?:amp;)?lt;|&#0*60;|&#x0*3c;|\\u003c|%3c)"
_CLOSES = r"(?:[>\uff1e\ufe65\u203a\u3009]|&(?:amp;)?gt;|&#0*62;|&#x0*3e;|\\u003e|%3e)"
PRIVATE = (
    rf"(?i){_OPENS}\s{{0,20}}(\\?/|%2f)?\s{{0,20}}private(?![\w-])"
    rf"(?:[^<>\uff1e\n]{{0,200}}?{_CLOSES}|\s{{0,20}}>)?"
)
LETTERS = {**{c + 0xFEE0: chr(c) for c in range(0x21, 0x7F)}, 0x3000: " "}
"""Wide letters, as some keyboards write them, and their plain forms."""
ODD = {
    0x130: 0x69,
    0x131: 0x69,
    0x17F: 0x73,
    0x212A: 0x6B,
    0x345: 0x3B9,
    0x3F0: 0x3BA,
    0x1C82: 0x43E,
    0x1FBE: 0x3B9,
}
"""Letters that a pattern takes for others, and lower() does not."""
KEY_BLOCK = r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)"
# Of each form of credential, here and in FORMS: words without which it is nowhere, since a hook lives for a moment, and to
# compile all patterns takes most of it; and its pattern.
TOKENS = {
    "akia|asia|ltai": r"(?:AKIA|ASIA)[A-Z0-9]{16}|LTAI[A-Za-z0-9]{16,30}",
    "gh|github_pat_|glp":
        r"(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40}|glpat-[A-Za-z0-9_-]{20})[A-Za-z0-9_-]{0,200}"
        r"|glptt-[a-f0-9]{40}",
    "sk-":
        r"sk-(?:(?:ant-|proj-|or-)?(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_]{20,200}[A-Za-z0-9_-]{0,200}|(?:ant|proj|or)-[A-Za-z0-9_-]{20,300})",
    "k_live|k_test|whsec_|xox|xapp-":
        r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,200}|whsec_[A-Za-z0-9+/=]{16,100}|xox[abeoprs]-[A-Za-z0-9-]{10,300}"
        r"|xapp-[A-Za-z0-9-]{10,300}",
    "aiza|ya29.|gocspx-|sg.|gsk_|shpat_":
        r"AIza[A-Za-z0-9_-]{35,60}|ya29\.[A-Za-z0-9_-]{20,300}|GOCSPX-[A-Za-z0-9_-]{20,60}"
        r"|SG\.[A-Za-z0-9_-]{16,100}\.[A-Za-z0-9_-]{16,100}|gsk_[A-Za-z0-9]{30,100}|shpat_[A-Za-z0-9]{20,60}",
    "npm_|pypi-|hf_|dop_v1_|hvs.|dckr_pat_|lin_api_|age-secret-key-|sq0":
        r"(?:npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50}|hf_[A-Za-z0-9]{30})[A-Za-z0-9_-]{0,300}|dop_v1_[a-f0-9]{40,80}"
        r"|hvs\.[A-Za-z0-9_-]{20,200}|dckr_pat_[A-Za-z0-9_-]{20,60}|lin_api_[A-Za-z0-9]{20,60}|AGE-SECRET-KEY-[A-Z0-9]{40,80}"
        r"|sq0[a-z]{3}-[A-Za-z0-9_-]{20,60}",
    ":": r"(?:bot)?\d{8,10}:[A-Za-z0-9_-]{35}",
    "nrak|pmak|cfpat|tskey|pplx|xai|tvly|figd|nfp|sbp|ntn|rubygems|r8":
        r"(?:NRAK|PMAK|CFPAT|tskey-[a-z]{2,10}|pplx|xai|tvly|figd|nfp|sbp|ntn|rubygems|r8)[-_][A-Za-z0-9_-]{22,200}",
    "key-|dapi|tt3|eaacedeose0cba|secret_":
        r"key-[a-f0-9]{32}|dapi[a-f0-9]{32}|AT[AC]TT3[A-Za-z0-9_=-]{20,300}|EAACEdEose0cBA[A-Za-z0-9]{10,300}"
        r"|secret_[A-Za-z0-9]{40,60}",
    "eyj": r"eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,1000}",
}  # fmt: skip
# Placeholders for a credential: a variable, a call, a word of a manual.
PLAIN = (
    r"(?i)[/~$<{*%:-]|(?:id|type|env)=|\.\.\.|\[|x{3}|[a-z_]\w{0,40}(?:\.\w|[(\[])|(?:process|os|settings|config|self|this)\b"
    r"|(?:an?|and|any|are|as|asks|at|be|by|can|directive|for|from|get|has|if|in|is|it|may|means|must|my|needs|no|not|of|on|or|see|should|takes"
    r"|that|the|this|to|wants|was|when|where|which|will|with|your?|basic|bearer|bool|bytes|changed?|changeme|disabled|empty"
    r"|enabled|encrypted|example|expired|false|field|flag|forgotten|hashed|hidden|incorrect|int|invalid|mandatory|missing"
    r"|needed|nil|none|null|option|optional|passw(?:or)?d|placeholder|protected|redacted|required|reset|rotated|secret|str|strict"
    r"|string|text|token|true|undefined|unknown|unset|value|wrong)(?![^\s\"'`,.;:!?)\]}&])"
)
LOGINS = {
    "passw|passp|passc|passo": r"pass(?:word|wd|phrase|code|wort|ord)s?",
    "parol": "parol[aă]",
    "khẩu": "mật khẩu",
    "κωδικ": "κωδικός",
    "كلمة": "كلمة المرور|كلمة السر",
    "סיסמ": "סיסמה|סיסמת",
    **{
        word: word
        for word in (
            "kennwort", "contraseña", "clave", "mot de passe", "senha", "wachtwoord", "hasło", "heslo", "şifre", "lösenord",
            "adgangskode", "salasana", "jelszó", "пароль", "密码", "密碼", "口令", "パスワード", "비밀번호", "पासवर्ड",
        )
    },
    "pw|psk|pass": r"(?<![a-z])(?:pw|pwd|psk|pass)",
    "_pass|_secret": "_pass|_secret",
}  # fmt: skip
"""What a login is called; a pattern is tried with those of them whose words are there."""
_KEYS = r"(?:api|secret|access|private|account|auth|master|encryption|license|service|shared|signing|storage)[ _-]?key"
NAMES = LOGINS | {"secret": "secret", "token": "token", "key": _KEYS}
_LOGIN, _SECRET = (f"(?:{'|'.join(each.values())})" for each in (LOGINS, NAMES))
_NAME = rf"{_SECRET}(?:[_-][\w.-]{{0,40}}|\d{{1,4}})?(?:\\?[\"'])?\]?"
_IS = r"(?:(?:is|ist|est|es|è|é|to|lautet|was|war|er|är|on|je)\b:?|是|为|為|は|[은는])"
_SAYS = rf"\*{{0,2}}\s{{0,3}}(?:[:=\uff1a\uff1d|]|:=|=>|\s-|\s?{_IS})\*{{0,2}}\s{{0,3}}"
OF_LOGIN, OF_SECRET = "|".join(LOGINS), "|".join(NAMES)
_ONE = r"[^\s\"'`,;<>(){}&|\u3002]"
_MIXED = rf"(?={_ONE}{{0,64}}[0-9])(?={_ONE}{{0,64}}[a-z]){_ONE}"
_REST = r"[^\n|;&]{0,200}?\s"
LOGIN_IN_URL = r"(?i)(://)[^\s/\"'`<>]{0,200}:(?!(?:passw(?:or)?d|pass|pw|secret|x{3,}|\.{3})@|[$*%{])[^\s/\"'`<>]{1,200}@"
# Before a credential stands the first group; in the second one it may be PLAIN.
FORMS = (
    # HTTP
    (
        "authorization",
        (
            r"\b(authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:(?:basic|bearer|token|digest|apikey)\s{1,3})?)"
            r"((?=[^\s\"']{0,64}[0-9=]|[^\s\"']{16})[^\s\"']{6,2000})"
        ),
    ),
    ("bearer|basic", r"\b(bearer\s{1,3}|basic\s{1,3}(?=[a-z0-9+/]{8,400}=))[a-z0-9._~+/-]{10,2000}=*"),
    ("cookie", r"\b((?:set-)?cookie\s{0,3}:\s{0,3})(?=[^\n\"'=]{1,100}=)[^\n\"']{4,4000}"),
    (
        "key|token|secret|auth",
        r"\b((?:x-[\w-]{0,30}(?:key|token|secret|auth)|[a-z]{2,20}-token)\s{0,3}:\s{0,3})([^\s\"']{8,2000})",
    ),
    ("sig|key|code|auth", r"([?&](?:sig|signature|key|code|auth)=)[\w%+/=.~-]{16,2000}"),
    ("slack|discord", r"((?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/)[\w/-]{10,200}"),
    ("@", r"(://)(?=[\w-]{0,60}\d)[\w-]{20,200}(?=@)"),
    # Command lines
    (
        "pass|secret|token|key|auth",
        rf"(\s--?[\w-]{{0,40}}(?:passw(?:or)?d|passphrase|pass|secret|token|{_KEYS}|auth)[= ][\"']?)([^\s\"']{{3,200}})",
    ),
    (
        "curl|ab|xh|http|-user",
        (
            rf"((?:\b(?:curl|ab|xh)\b{_REST}-[a-z]{{0,8}}u|\bhttps?\s-a|-user)[= ]?[\"']?[^\s:\"']{{1,60}}:)"
            r"(?!\$)[^\s\"']{1,200}"
        ),
    ),
    ("curl", rf"(\bcurl\b{_REST}(?:-b|--cookie)[= ][\"']?[^\s=\"';]{{1,60}}=)[^\s\"']{{4,400}}"),
    (
        "sqlplus|sqlcl|expdp|impdp|sqlldr|rman|jdbc:oracle",
        rf"(\b(?:sqlplus|sqlcl|expdp|impdp|sqlldr|rman)\b{_REST}[\w$#]{{1,60}}/|\bjdbc:oracle:\w{{1,9}}:[^\s/@]{{1,60}}/)[^\s@/\"']{{3,100}}",
    ),
    ("@", r"(\b[\w.-]{1,60}[/\\][\w.-]{1,60}:)[^\s@:/\"']{3,100}(?=[\"']?@(?!sha))"),
    ("lftp", rf"(\blftp\b{_REST}-u\s{{0,2}}[\"']?[^\s,\"']{{1,60}},)[^\s\"']{{3,200}}"),
    ("snmp", rf"(\bsnmp\w{{2,12}}\b{_REST}(?-i:-A)\s{{0,2}}[\"']?)[^\s\"']{{3,200}}"),
    ("snmp", rf"(\bsnmp\w{{2,12}}\b{_REST}(?-i:-X)\s{{0,2}}[\"']?)[^\s\"']{{3,200}}"),
    ("--from-literal", r"(\s--from-literal[= ][\"']?[\w.-]{1,60}=)([^\s\"']{3,400})"),
    ("pw|password-command", r"(\s-(?:pwd?|-password-command[= ][\"']?echo)[= ][\"']?)([^\s\"']{3,200})"),
    ("passwd", r"(\bpasswd\b[^\n]{0,60}<<<\s?[\"']?)[^\s\"']{3,200}"),
    (
        "-p",
        r"(\s(?:-u|--?user(?:name)?)[ =][\"']?[\w.@-]{1,60}[\"']?\s{1,3}-p\s{1,3}[\"']?)([^\s\"']{3,200})",
    ),
    ("mysql|mariadb", rf"(\b(?:mysql|mariadb)[\w-]{{0,10}}\b{_REST}-p[\"']?)(?![\s\"'])[^\s\"']{{1,200}}"),
    (
        "sshpass|7z|rar|login|mongo",
        rf"(\b(?:sshpass|7z\w?|rar|(?:docker|podman|az|registry)\s+login|mongo\w{{0,8}})\b{_REST}-p\s?[\"']?)([^\s\"']{{3,200}})",
    ),
    (
        "redis-cli|ldap|openssl|sqlcmd|bcp|zip|mosquitto_|ipmitool|useradd|ssh-keygen|rabbitmqctl|wpa_passphrase|nmcli|rclone|vault|requirepass|masterauth|rootpw|_pw|login",
        (
            rf"(\b(?:redis-cli\b{_REST}-a|ldap[a-z]{{3,10}}\b{_REST}-w|openssl\s[a-z0-9-]{{3,20}}\b{_REST}-k"
            rf"|(?:sqlcmd|bcp|(?:un)?zip|mosquitto_\w{{3}}|ipmitool)\b{_REST}(?-i:-P)|useradd\b{_REST}-p|ssh-keygen\b{_REST}-N|rabbitmqctl\s(?:add_user|change_password)\s\S{{1,60}}"
            r"|wpa_passphrase\s\S{1,60}|nmcli\s[^\n]{1,100}\spassword|rclone\sobscure|vault\slogin"
            r"|requirepass|masterauth|rootpw(?:\s--\w{1,20})?|\w{1,30}_pw|login\s{1,3}\S{1,100}\s{1,3}password)\s{1,3}[\"']?)([^\s\"']{3,200})"
        ),
    ),
    (
        "htpasswd",
        r"(\bhtpasswd\s{1,3}-\w{0,5}b\w{0,5}\s{1,3}\S{1,200}\s{1,3}\S{1,100}\s{1,3}[\"']?)[^\s\"']{1,200}",
    ),
    ("smbclient", rf"(\bsmbclient\b{_REST}-U\s{{0,3}}[^\s%]{{1,100}}%)[^\s\"']{{1,200}}"),
    ("net", r"(\bnet\s{1,3}user?\s[^\n]{0,200}?\s)[^\s\"'/\\]{4,200}(?=\s{1,3}/(?:user:|add))"),
    (
        "echo|printf",
        r"(\b(?:echo|printf)\s{1,3}[\"']?)[^\s\"'|$]{3,200}(?=[\"']?\s{0,3}\|\s{0,3}(?:sudo\s[^\n]{0,40}-\w{0,5}(?-i:S)\b|(?:sudo\s)?(?:ch)?passwd))",
    ),
    ("/p|pass:", r"(\s/p(?:ass)?:|\bpass:)(?=\S{0,40}[a-z])[^\s\"']{4,200}"),
    ("convertto-securestring", r"(\bConvertTo-SecureString\s(?:-String\s)?[\"'])[^\"'\n]{3,300}"),
    (
        "env|setx|config",
        rf"(\b(?:ENV|setx|setenv|config(?:ure)?\s(?:set|create\s[^\n]{{1,200}}?))\s{{1,3}}[\w./:-]{{0,60}}?(?:{_NAME}|key\w{{0,40}})\s{{1,3}})([^\s\"'`,;<>(){{}}&|]{{4,500}})",
    ),
    # Names and values
    (OF_SECRET, rf"(<{_NAME}>)[^<\n]{{3,300}}(?=</)"),
    (OF_SECRET, rf"({_NAME}{_SAYS}\\?[\"'`])(?![$<{{*]|[\"'`]{{2}})[^\"'`\n]{{4,300}}(?=[\"'`])"),
    (
        "identified|password",
        r"(\b(?:identified by|password(?:\sfor\s[^\n=]{1,80}=)?)\s{1,3}([\"']))[^\"'\n]{3,300}(?=\2)",
    ),
    ("identified|secret", rf"(\b(?:identified by|secret(?:_access)?_key)\s{{1,3}}){_MIXED}{_ONE}{{5,99}}"),
    ("env(", rf"(\b(?:set|put)env\([\"']\w{{0,60}}{_NAME},\s?[\"'])[^\"'\n]{{4,300}}"),
    ("value=", rf"(\b(?:key|name)=[\"'][\w.:-]{{0,60}}{_NAME}\s{{1,3}}value=[\"'])[^\"'\n]{{4,300}}"),
    (OF_SECRET, rf"({_NAME}=)((?=\S{{0,64}}[a-z])[^\s\"'`,;<>(){{}}&|]{{4,300}}(?![(\[]))"),
    (
        OF_LOGIN,
        (
            rf"({_LOGIN}(?:[_-][\w.-]{{0,40}}|\d{{1,4}})?[\"']?(?:\s(?:is|ist))?\s{{0,3}}(?:[:=]|\s-)\s{{1,3}})"
            r"((?=\S{0,64}[a-z])[^\s\"'`,;<>(){}&|]{8,300}(?![(\[]))"
        ),
    ),
    # After such a word, a text with a letter and a digit: passwords have both, words do not.
    (
        f"{OF_SECRET}|credential|log|sign|auth",
        (
            rf"({_NAME}(?:\s[\w\u00c0-\u024f]{{1,20}}){{0,4}}{_SAYS}"
            rf"|\b(?:pw|password|token|secret|\u043f\u0430\u0440\u043e\u043b\u044c(?:\s\w{{1,3}}\s\w{{1,20}})?)\s"
            rf"|\bcredentials?(?:\sare)?:?\s[\w.@-]{{1,60}}\s?[/:]\s?|\b(?:log|sign)\s?in\sas\s\S{{1,60}}\s(?:with|and)\s|(?-i:\bAUTH)\s)"
            rf"({_MIXED}{_ONE}{{5,299}})"
        ),
    ),
    ("log|sign", r"(\b(?:log|sign)\s?in\s(?:with|as|using)\s[\w.@-]{1,60}:)([^\s\"']{4,200})"),
    ("log|sign", rf"(\s[\w.@-]{{1,60}}\s?/\s?){_MIXED}{_ONE}{{5,99}}(?=\sto\s(?:log|sign)\s?in\b)"),
    ("password", rf"()\b{_MIXED}{_ONE}{{5,99}}(?=\sas\s(?:the\s|a\s|my\s)?password\b)"),
    (
        "pass|pwd|secret|token|key",
        (
            r"((?-i:\b[A-Z0-9_]{0,60}(?:PASSWORD|PASSWD|PASS|PWD|SECRET|TOKEN|KEY)(?:[_0-9][A-Z0-9_]{0,40})?)=[\"']?)"
            r"(?![/~$\"'<*]|x{3})[^\s;&|\"']{4,500}"
        ),
    ),
)
_TOLD = rf"[\"'`]?({_ONE}{{3,300}})[\"'`]?"
TELLS = rf"{_NAME}(?:\s[\w\u00c0-\u024f]{{1,20}}){{0,4}}{_SAYS}{_TOLD}\W*\Z"
"""The end of a rule that says a password in plain words: one word, none of PLAIN. Elsewhere manuals say such."""
TELLS_LOGIN = (
    rf"(?:\b(?:log|sign)\w*\s?(?:in|on)?|\b(?:user|account|connect|auth|with|using|mit|con|avec))\b[^\n]{{0,80}}?\b{_LOGIN}\s{{1,3}}"
    rf"(?!(?:manager|auth|hash|field|prompt|file|reset|policy|login|page|form|store|vault|managed|rotation|rule|chang|leak|attempt|in|via|against|before|after)){_TOLD}"
    rf"|\b(?:log-?ins?|sign-?in|credentials?|creds|account|zugang|anmeldung)\b[^\n]{{0,60}}?(?:{_SAYS}|\sare\s)[\w.@-]{{1,60}}"
    rf"(?:\s{{1,3}}/\s{{1,3}}|:\s?|/(?=[^\s/.]{{0,60}}\d)){_TOLD}\W*\Z"
    rf"|(?:{_LOGIN}|\b(?:mdp|(?-i:PIN)))\s{{1,3}}((?={_ONE}{{0,64}}\d){_ONE}{{4,99}})\W*\Z"
    rf"|\b(?:(?-i:PIN)|(?:pin|wi-?fi|door|gate|alarm|entry|safe)\scode)(?:\s\w{{1,20}}){{0,4}}{_SAYS}((?={_ONE}{{0,64}}\d){_ONE}{{4,99}})\W*\Z"
)
"""A rule that says a login: "log in as admin with password letmein", "the login is admin / hunter22", "user ann, pin 4711"."""
BLANKS = {9: 32, 10: 32, 13: 32}
TELLS_PHRASE = (
    rf"\b(?:pass|seed|recovery|secret)[ -]?phrase(?:\s\w{{1,20}}){{0,4}}{_SAYS}"
    rf"[\"'`]?((?:{_ONE}{{2,20}} ){{1,11}}{_ONE}{{2,20}})[\"'`]?\W*\Z"
)
"""A rule that says a passphrase, in words of which none is PLAIN: "the passphrase is correct horse battery staple"."""
UNSTORABLE = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]"
UNSEEN = r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
SPLIT = r"[\s\"'`=;|&<>(){}@:,]+"


def cleaned(text: object, most: int) -> str:
    """A text as it may be sent, at most `most` characters; "" for a value that is not a text."""
    if not isinstance(text, str):
        return ""
    # A credential across the end of the kept text is examined whole; one that is cut even there is left out.
    text = _without_private(_storable(text[: 2 * most + 10_000]))
    if "-----BEGIN" in text:
        text = re.sub(KEY_BLOCK, HIDDEN, text)
    folded = _folded(text)
    for words, form in TOKENS.items():
        if _has(folded, words):
            text = re.sub(rf"\b(?:{form})", HIDDEN, text)
    if "@" in text:
        text = re.sub(LOGIN_IN_URL, rf"\1{HIDDEN}@", text)
    folded = _folded(text)
    named = _named(folded)
    for words, form in FORMS:
        if _has(folded, words):
            text, times = _fitting(form, named).subn(_hidden, text)
            if times:
                folded = _folded(text)
                named = _named(folded)
    return text[:most].strip()


def _storable(text: str) -> str:
    if not text.isascii():
        text = re.sub(UNSEEN, "", text)
    return text if text.translate(BLANKS).isprintable() else re.sub(UNSTORABLE, "\ufffd", text)


def _has(folded: str, words: str) -> bool:
    return any(word in folded for word in words.split("|"))


def _named(folded: str) -> tuple[str, ...]:
    return tuple(words for words in NAMES if _has(folded, words))


@lru_cache(1024)
def _fitting(form: str, named: tuple[str, ...]) -> re.Pattern[str]:
    """A form with those names alone that a text has."""
    for whole, names in ((_SECRET, NAMES), (_LOGIN, LOGINS)):
        if whole in form:
            there = [name for words, name in names.items() if words in named]
            form = form.replace(whole, f"(?:{'|'.join(there) or '(?!)'})")
    return re.compile(form, re.IGNORECASE)


def tells_secret(rule: str) -> bool:
    """Whether a rule has a credential: one that `cleaned` has hidden, or a word that the rule says is one."""
    named = _named(_folded(rule))
    told = [
        found for form in (TELLS, TELLS_LOGIN, TELLS_PHRASE) for found in _fitting(form, named).finditer(rule)
    ]
    return HIDDEN in rule or any(
        not any(re.match(PLAIN, word) for word in next(filter(None, found.groups()), "").split())
        for found in told
    )


def _hidden(found: re.Match[str]) -> str:
    plain = found.lastindex == 2 and re.compile(PLAIN).match(found.string, found.start(2))
    return found[0] if plain else f"{found[1]}{HIDDEN}"


def _folded(text: str) -> str:
    return text.translate(ODD).lower()


def _without_private(text: str) -> str:
    """The text without its private spans, also nested ones; a tag that is not closed hides the rest."""
    plain = text.translate(LETTERS)
    if "private" not in _folded(plain):
        return text
    kept = ""
    depth = at = 0
    for tag in re.finditer(PRIVATE, plain):
        if not tag[1]:
            kept += f"{text[at : tag.start()]}[private]" if depth == 0 else ""
            depth += 1
        elif depth:
            depth -= 1
        else:
            # Its opening tag is before this text.
            kept = "[private]"
        at = tag.end()
    return kept + text[at:] if depth == 0 else kept


class Rules:
    """The private files of a project: by `.memorydignore`, one pattern a line, and by built-in rules."""

    def __init__(self, root: str) -> None:
        self._root = root
        lines = read_text(os.path.join(root, RULES), 20_000).lstrip("\ufeff").splitlines()[:MOST_RULES]
        given = [p for line in lines if (p := line.strip()) and p[0] != "#"]
        self.everything = not EVERYTHING.isdisjoint(given)
        self._hidden: re.Pattern[str] | None = None
        self._patterns = [p.strip("/").lower()[:200] for p in (*ALWAYS, *given)]

    def shown(self, path: str) -> str | None:
        """The path of a file within the project; None if it is private."""
        name = os.path.relpath(path, self._root) if os.path.isabs(path) else os.path.normpath(path)
        return None if self.hides(name) else name

    def hides(self, name: str) -> bool:
        """Whether a pattern matches this path, a part of it, or one of its folders."""
        parts = [part for part in name[-LONGEST_PATH:].lower().split("/") if part not in ("", ".")][-20:]
        ways = ["/".join(parts[: n + 1]) for n in range(1, len(parts))]
        if self._hidden is None:
            from fnmatch import translate

            self._hidden = re.compile("|".join(translate(p) for p in self._patterns if p))
        return any(self._hidden.match(one) for one in (*parts, *ways))

    def hides_in(self, text: str) -> bool:
        """Whether a text, such as a command, names a private file."""
        return any(self.hides(word) for word in re.split(SPLIT, text[:LONGEST_COMMAND]) if word)
