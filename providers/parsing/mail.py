"""E-mail (.eml): the subject is the title, then the headers as a short list, then the body.

Of a message that has both, the plain text is taken, not the HTML. Attachments are named, never read: whoever wants to keep one
drops it by itself.
"""

from __future__ import annotations

import contextlib
from email import policy
from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.utils import parsedate_to_datetime

from providers.parsing import web
from providers.parsing.decoding import decode
from providers.parsing.texts import Output, clean, one_line, size, title_of
from providers.ports import Parsed, Unreadable

HEADERS = ("From", "To", "Cc", "Date")
MAX_HEADER = 2_000
"""Characters; a message to a whole company has thousands of addresses."""
MAX_ATTACHMENTS = 100
"""Named."""


def read(content: bytes, name: str, room: int) -> Parsed:
    """The message. `metadata` has from, to, cc, subject, date (ISO 8601) and attachments. Raises `Unreadable`."""
    message: EmailMessage = BytesParser(policy=policy.default).parsebytes(content)
    headers = {each: _header(message, each) for each in (*HEADERS, "Subject")}
    if not any(headers.values()):
        raise Unreadable(
            "The file is called .eml, but has no headers of an e-mail. Save the message again from the mail program."
        )
    body, attachments = _parts(message)
    output = Output(room)
    for each in HEADERS:
        if headers[each]:
            output.add(f"- {each}: {headers[each]}")
    if attachments:
        output.add(f"- Attachments: {', '.join(attachments)}")
    output.add("")
    output.add(body.strip("\n"))
    date = headers["Date"]
    with contextlib.suppress(ValueError, IndexError, TypeError, OverflowError):
        date = parsedate_to_datetime(date).isoformat()
    values = headers | {"Date": date, "Attachments": attachments}
    return Parsed(
        text=output.text(),
        title=one_line(headers["Subject"]) or title_of(name),
        document_type="email",
        metadata={key.lower(): value for key, value in values.items() if value},
    )


def _header(message: EmailMessage, name: str) -> str:
    try:
        value = str(message[name] or "")
    except Exception:  # noqa: BLE001 - the standard library fails in many ways on headers that are none
        value = next((str(raw) for key, raw in message.raw_items() if key.lower() == name.lower()), "")
    return one_line(value, MAX_HEADER)


def _parts(message: EmailMessage) -> tuple[str, list[str]]:
    """The body as Markdown, and the attachments' names."""
    plain: list[str] = []
    html: list[str] = []
    names: list[str] = []
    for part in message.walk():
        if part.is_multipart():
            continue
        name = _name(part)
        kind = part.get_content_type()
        if name is None and kind == "text/html":
            html.append(web.convert(_text(part))[0])
        elif name is None and part.get_content_maintype() == "text":
            plain.append(_text(part))
        elif len(names) < MAX_ATTACHMENTS:
            names.append(name or kind)
    words = "\n\n".join(each.strip("\n") for each in plain if each.strip())
    return words or "\n\n".join(each for each in html if each.strip()), names


def _name(part: Message) -> str | None:
    """The name of an attachment; None if the part is to be read."""
    try:
        name = part.get_filename()
        attached = part.get_content_disposition() == "attachment"
    except Exception:  # noqa: BLE001 - as in _header
        return "unnamed"
    if name is None and not attached:
        return None
    return one_line(name or "") or "unnamed"


def _text(part: Message) -> str:
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):
        return ""
    try:
        return decode(content, part.get_content_charset())[0]
    except Unreadable:
        return f"({size(len(content))} that are not text)"
    except Exception:  # noqa: BLE001 - as in _header
        return clean(content.decode("utf-8", "replace"))
