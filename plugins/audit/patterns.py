"""Finds secrets and personal numbers in a text by their form, with the packages of the extra `audit`.

Promise: only forms that other text rarely has; a finding says where a value is, never the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from providers.ports import missing

PIECE = 2000
OVERLAP = 400
"""Characters of a piece. A text is read in pieces, since some expressions take quadratic time."""
LONGEST = 1_000_000
"""Characters of a text that are read."""


class MissingExtraError(ValueError):
    """The packages are not installed; the message says how to install them."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A place in a text, in characters, and the kind of its value."""

    offset: int
    length: int
    kind: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A form, and a check of its values."""

    kind: str
    form: re.Pattern[str]
    counts: Callable[[str], bool] = bool
    shortest: int = 16
    """The number of the group with the value."""


Finder = Callable[[str], Sequence[Span]]

_DETECTORS = (
    ("aws", "AWSKeyDetector", "an AWS key"),
    ("azure_storage_key", "AzureStorageKeyDetector", "an Azure storage key"),
    ("discord", "DiscordBotTokenDetector", "a Discord token"),
    ("github_token", "GitHubTokenDetector", "a GitHub token"),
    ("gitlab_token", "GitLabTokenDetector", "a GitLab token"),
    ("mailchimp", "MailchimpDetector", "a Mailchimp key"),
    ("npm", "NpmDetector", "an npm token"),
    ("openai", "OpenAIDetector", "an OpenAI key"),
    ("pypi_token", "PypiTokenDetector", "a PyPI token"),
    ("sendgrid", "SendGridDetector", "a SendGrid key"),
    ("slack", "SlackDetector", "a Slack token"),
    ("square_oauth", "SquareOAuthDetector", "a Square token"),
    ("stripe", "StripeDetector", "a Stripe key"),
    ("telegram_token", "TelegramBotTokenDetector", "a Telegram token"),
    ("twilio", "TwilioKeyDetector", "a Twilio key"),
)
"""Those of detect-secrets whose values have a mark of their own; not its keywords and entropy, which name much that is none."""
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]{0,20000}(?:-----END [^-]{0,60}-----)?"
)
_URL = re.compile(r"\b[a-z][a-z0-9+]{1,20}://[^\s:/@]{1,200}:([^\s:/@<>${}*]{3,200})@")
_NO_PASSWORD = re.compile(r"(?i)(?:your|my)?[-_]?(?:password|passwd|pass|pw|secret|x{3,}|\.{3}|test|example)")
_MODEL_KEY = re.compile(r"\bsk-(?:ant-|proj-)[A-Za-z0-9_-]{20,200}")


def _named(value: str) -> bool:
    return _NO_PASSWORD.fullmatch(value) is None


def _mixed(value: str) -> bool:
    """A value of letters and digits, not a word of an example."""
    return any(c.isdigit() for c in value) and re.search(r"(?i)example|x{6}|0{8}|1234567", value) is None


@cache
def secrets_in() -> Finder:
    """The patterns of secrets. Raises MissingExtraError."""
    try:
        from importlib import import_module

        from detect_secrets.plugins.jwt import JwtTokenDetector

        patterns = [
            Pattern(kind, form, _mixed)
            for module, name, kind in _DETECTORS
            for form in getattr(import_module(f"detect_secrets.plugins.{module}"), name)().denylist
        ]
    except ImportError:
        raise MissingExtraError(missing("memoryd audit --secrets", "audit")) from None
    patterns += [
        Pattern("a signed token", form, JwtTokenDetector.is_formally_valid)
        for form in JwtTokenDetector().denylist
    ]
    patterns += [Pattern("a URL with a password", _URL, _named, 3), Pattern("an API key", _MODEL_KEY, _mixed)]
    return _finder(patterns, whole=(Pattern("a private key", _PRIVATE_KEY),))


@cache
def personal_data_in() -> Finder:
    """What finds numbers of persons. Raises MissingExtraError."""
    try:
        from stdnum import iban, luhn
        from stdnum.br import cpf
        from stdnum.cn import ric
        from stdnum.es import dni
        from stdnum.fr import nir
        from stdnum.it import codicefiscale
    except ImportError:
        raise MissingExtraError(missing("memoryd audit --personal-data", "audit")) from None

    def card(value: str) -> bool:
        digits = re.sub(r"[ -]", "", value)
        return len(set(digits)) > 3 and bool(luhn.is_valid(digits))

    # No part of a longer number or word.
    def number(kind: str, form: str, counts: Callable[[str], bool]) -> Pattern:
        return Pattern(kind, re.compile(rf"(?<![\w.-]){form}(?![\w-]|\.\d)"), counts)

    def telephone(value: str) -> bool:
        return 9 <= sum(c.isdigit() for c in value) <= 15

    host = r"(?!example\.)[A-Za-z0-9-]{1,60}(?:\.[A-Za-z0-9-]{1,60})*\.[A-Za-z]{2,12}"
    patterns = [
        number("an IBAN", r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?", iban.is_valid),
        number("a payment card", r"(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6011)(?:[ -]?\d{4}){3}", card),
        number("a payment card", r"3[47]\d\d[ -]?\d{6}[ -]?\d{5}", card),
        number("a Spanish identity number", r"\d{8}-?[A-HJ-NP-TV-Z]", dni.is_valid),
        number("a French social security number",
               r"[12] ?\d\d ?(?:0[1-9]|1[0-2]) ?\d[\dAB] ?\d{3} ?\d{3} ?\d\d", nir.is_valid),
        number("an Italian tax code", r"[A-Z]{6}\d{2}[A-Z]\d{2}[A-Z]\d{3}[A-Z]", codicefiscale.is_valid),
        number("a Chinese identity number", r"[1-9]\d{5}(?:19|20)\d{9}[\dX]", ric.is_valid),
        number("a Brazilian tax number", r"\d{3}\.\d{3}\.\d{3}-\d\d", cpf.is_valid),
        number("an e-mail address", rf"[A-Za-z0-9][\w.+-]{{0,60}}@{host}", bool),
        number("a telephone number", r"\+[1-9]\d{0,2}[ -]?(?:\(\d{1,4}\)[ -]?)?\d{2,4}(?:[ -]?\d{2,4}){2,4}", telephone),
    ]  # fmt: skip
    return _finder(patterns)


def _finder(patterns: Sequence[Pattern], whole: Sequence[Pattern] = ()) -> Finder:
    """Finds them in a text. `whole`: those that may be longer than a piece."""

    def find(text: str) -> list[Span]:
        text = text[:LONGEST]
        spans = {span for pattern in whole for span in _spans(pattern, text, 0)}
        for start in range(0, max(len(text), 1), PIECE - OVERLAP):
            piece = text[start : start + PIECE]
            spans |= {span for pattern in patterns for span in _spans(pattern, piece, start)}
        return _apart(sorted(spans, key=lambda span: (span.offset, -span.length)))

    return find


def _spans(pattern: Pattern, text: str, start: int) -> Iterator[Span]:
    for match in pattern.form.finditer(text):
        # A group is the value, or a part of its mark.
        group = next(
            (n for n in range(1, pattern.form.groups + 1) if len(match.group(n) or "") >= pattern.shortest), 0
        )
        if pattern.counts(match.group(group)):
            yield Span(start + match.start(group), len(match.group(group)), pattern.kind)


def _apart(spans: Sequence[Span]) -> list[Span]:
    """Those that do not overlap: of two the one that begins first."""
    kept: list[Span] = []
    for span in spans:
        if not kept or span.offset >= kept[-1].offset + kept[-1].length:
            kept.append(span)
    return kept
