"""E-mail (.eml): the subject is the title, then the headers as a short list, then the body.

Of a message that has both, the plain text is taken, not the HTML, unless it says next to nothing of what the HTML says.
What was forwarded as an attachment follows with its own headers. Other attachments are named, never read: whoever wants to keep
one drops it by itself.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import quopri
import re
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any

from plugins.documents.parsing import web
from plugins.documents.parsing.texts import Output, one_line, size, title_of
from plugins.documents.ports import Parsed
from plugins.files.decoding import decode
from plugins.files.local import UnreadableFileError

HEADERS = ("From", "To", "Cc", "Date")
READ = ("text/plain", "text/html")
"""Of alternatives; others repeat them for some program, as calendars do."""
FEW = 12
"""Pieces of a text that may differ by chance."""
MAX_HEADER = 2_000
"""Characters; a message to a whole company has thousands of addresses."""
MAX_ATTACHMENTS = 100
"""Named."""

_WORD = re.compile(rb"=\?([\w.:-]{1,40})(?:\*[\w-]*)?\?([bBqQ])\?([^?]*)\?=(?:\s+(?==\?))?")
_STUB = re.compile(
    r"\bhtml\b|browser|navigat?[eo]u?r|navegador|браузер|ブラウザ|浏览器|瀏覽器|브라우저", re.IGNORECASE
)
_BOUNDARY = re.compile(rb"^--(\S[^\r\n]{0,100}?)[ \t]*\r?\n(?=Content-)", re.MULTILINE | re.IGNORECASE)


def read(content: bytes, name: str, room: int) -> Parsed:
    """The message. `metadata` has from, to, cc, subject, date (ISO 8601) and attachments. Raises `UnreadableFileError`."""
    message: EmailMessage = BytesParser(policy=policy.default).parsebytes(content.lstrip(b"\xef\xbb\xbf\r\n"))
    reading = _Reading()
    headers = {each: reading.header(message, each) for each in (*HEADERS, "Subject")}
    if not any(headers.values()):
        raise UnreadableFileError(
            "The file is called .eml, but has no headers of an e-mail. Save the message again from the mail program."
        )
    body = "\n\n".join(reading.parts(message))
    output = Output(room)
    for each in _head(headers):
        output.add(each)
    if reading.attachments:
        output.add(f"- Attachments: {', '.join(reading.attachments)}")
    output.add("")
    output.add(body)
    date = headers["Date"]
    with contextlib.suppress(ValueError, IndexError, TypeError, OverflowError):
        date = parsedate_to_datetime(date).isoformat()
    values = headers | {"Date": date, "Attachments": reading.attachments}
    return Parsed(
        text=output.text(),
        title=one_line(headers["Subject"]) or title_of(name),
        document_type="email",
        metadata={key.lower(): value for key, value in values.items() if value} | reading.mark,
    )


def _head(headers: dict[str, str]) -> list[str]:
    return [f"- {each}: {headers[each]}" for each in HEADERS if headers[each]]


class _Reading:
    """One message being read: what is found on the way."""

    def __init__(self) -> None:
        self.attachments: list[str] = []
        self.mark: dict[str, Any] = {}

    def header(self, message: Message, name: str) -> str:
        raw = next((str(value) for key, value in message.raw_items() if key.lower() == name.lower()), "")
        written = raw.encode("utf-8", "surrogateescape")
        text, ended = "", 0
        pending: tuple[str, bytes] = "", b""
        for found in _WORD.finditer(written):
            label = found[1].decode("ascii")
            between, ended = written[ended : found.start()], found.end()
            # A character may be cut in two by the end of a word.
            if between or label != pending[0]:
                text += self._text(pending[1], pending[0] or None) + self._text(between, None)
                pending = label, b""
            pending = label, pending[1] + _unpacked(found[2], found[3])
        text += self._text(pending[1], pending[0] or None) + self._text(written[ended:], None)
        if name == "Date":
            with contextlib.suppress(ValueError, IndexError, TypeError, OverflowError):
                text = format_datetime(parsedate_to_datetime(text))
        return one_line(text, MAX_HEADER)

    def parts(self, part: Message) -> Iterator[str]:
        """What it says, in Markdown."""
        kind = part.get_content_type()
        inner: Any = part.get_payload()
        if kind == "multipart/alternative" and part.is_multipart():
            yield from self._best(inner)
        elif kind == "message/delivery-status" and part.is_multipart():
            yield "\n".join(
                f"- {name}: {one_line(str(value))}" for each in inner for name, value in each.raw_items()
            )
        elif part.is_multipart():
            for each in inner:
                yield from self._forwarded(each) if kind == "message/rfc822" else self.parts(each)
        elif kind.startswith("multipart/"):
            yield from self._unparted(part, kind)
        elif (name := _name(part)) is None and kind.startswith("text/"):
            if text := self._leaf(part, kind).strip("\n"):
                yield text
        elif len(self.attachments) < MAX_ATTACHMENTS:
            self.attachments.append(name or kind)

    def _forwarded(self, message: Message) -> Iterator[str]:
        headers = {each: self.header(message, each) for each in (*HEADERS, "Subject")}
        subject = [f"- Subject: {headers['Subject']}"] if headers["Subject"] else []
        if head := "\n".join(_head(headers) + subject):
            yield head
        yield from self.parts(message)

    def _best(self, parts: list[Message]) -> list[str]:
        """Of several that say the same, the first; the last one where the first says nothing of it; both where they differ."""
        usual = [each for each in parts if each.get_content_type() in READ or each.is_multipart()]
        found = [text for part in usual or parts if (text := "\n\n".join(self.parts(part))).strip()]
        if not found:
            return []
        plain, rich = found[0], found[-1]
        said, all_of_it = _shingles(plain), _shingles(rich)
        common = len(all_of_it & said)
        if len(all_of_it) > 2 * common and (_STUB.search(plain) or len(all_of_it) > 3 * len(said)):
            return [rich]
        return [plain, rich] if len(all_of_it) > max(FEW, 10 * common) else [plain]

    def _unparted(self, part: Message, kind: str) -> Iterator[str]:
        """A multipart message whose parts are not divided as its header says."""
        content = part.get_payload(decode=True) or str(part.get_payload()).encode("ascii", "surrogateescape")
        if isinstance(content, bytes) and (found := _BOUNDARY.search(content)):
            head = b'Content-Type: %s; boundary="%s"\n\n' % (kind.encode(), found[1].replace(b'"', b""))
            again = BytesParser(policy=policy.default).parsebytes(head + content)
            if again.is_multipart():
                yield from self.parts(again)
                return
        yield self._leaf(part, "text/plain").strip("\n")

    def _leaf(self, part: Message, kind: str) -> str:
        content = part.get_payload(decode=True)
        if not isinstance(content, bytes):
            return ""
        label: str | None = None
        with contextlib.suppress(
            Exception
        ):  # the standard library fails in many ways on headers that are none
            label = part.get_content_charset()
        if kind == "text/html":
            return web.convert(self._text(content, label or web.declared(content)))[0]
        text = self._text(content, label)
        return _unflowed(text, part.get_param("delsp")) if part.get_param("format") == "flowed" else text

    def _text(self, content: bytes, label: str | None) -> str:
        try:
            text, mark = decode(content, label)
        except UnreadableFileError:
            return f"({size(len(content))} that are not text)"
        self.mark |= mark
        return text


def _unpacked(form: bytes, word: bytes) -> bytes:
    try:
        return base64.b64decode(word + b"==") if form in b"bB" else quopri.decodestring(word, header=True)
    except binascii.Error:
        return word


def _unflowed(text: str, delsp: Any) -> str:
    """Lines that end with a blank go on in the next one (RFC 3676)."""
    end = "" if str(delsp).lower() == "yes" else " "
    lines: list[str] = []
    flows = False
    for line in text.split("\n"):
        quote = line[: len(line) - len(line.lstrip(">"))]
        words = line[len(quote) :].removeprefix(" ")
        if (
            flows
            and lines[-1].startswith(quote)
            and not lines[-1][len(quote) :].startswith(">")
            and words != "-- "
        ):
            lines[-1] = lines[-1][:-1] + end + words
        else:
            lines.append(f"{quote} {words}" if quote else words)
        flows = words.endswith(" ") and words != "-- "
    return "\n".join(lines)


def _name(part: Message) -> str | None:
    """The name of an attachment; None if the part is to be read."""
    try:
        name = part.get_filename()
        attached = part.get_content_disposition() == "attachment"
    except Exception:  # noqa: BLE001 - as in _leaf
        return "unnamed"
    if name is None and not attached:
        return None
    return one_line(name or "") or "unnamed"


def _shingles(text: str) -> set[str]:
    """What two texts have in common, in any language: their pieces of four letters."""
    letters = "".join(re.findall(r"\w+", text[:200_000])).lower()
    return {letters[at : at + 4] for at in range(max(1, len(letters) - 3))}
