"""From bytes to text, for all that is read: files, parts of e-mails, what is imported.

A byte order mark, UTF-8, and an encoding that the file names and that fits its bytes are known. What is named is read as
browsers read it (webencodings): `gb2312` means all of GB 18030, `x-sjis` Windows' Shift_JIS. Every other text is a guess by its
letters (chardet: of 6,200 texts of 25 to 500 characters, in 36 languages and 61 encodings, 97% were right).

Promise: no text that comes from here has NUL, a lone surrogate or a carriage return in it. A guess is never stored as known: it
has a mark in the metadata with the share of such guesses that are right. Where a text depends on a guess that says nothing, the
file is rejected.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from typing import Any

import chardet
import webencodings

from plugins.files.local import UnreadableFileError, whole_characters

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

CONTROLS = bytes(each for each in range(32) if each not in b"\t\n\v\f\r\x1b") + b"\x7f"
"""Bytes that no text has; escape is in captured output of terminals."""
MOST_CONTROLS = 0.02
"""Of all bytes; more is no text. Of random bytes a tenth are controls."""

WIDER = {
    "gbk": ("gb18030",), "gb2312": ("gb18030",), "euc_jp": ("euc_jp", "euc_jis_2004"), "shift_jis": ("cp932",),
    "iso2022_jp": ("iso2022_jp", "iso2022_jp_ext"), "big5": ("big5hkscs",), "euc_kr": ("cp949",),
}  # fmt: skip
"""By Python's codec, those that have all of its characters and more."""
MOST_LOST = 0.02
"""Of all characters; with more that the named encoding does not have, it is not the encoding."""

GUESSED = (
    "cp1252", "cp1251", "cp1250", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp874", "cp932", "euc_jis_2004",
    "gb18030", "big5hkscs", "cp949", "euc_kr", "koi8-r", "koi8-u", "iso2022_jp_2", "iso2022_jp_ext", "iso2022_jp_2004",
    "iso2022_kr", "hz", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "cp866", "iso8859-2", "iso8859-5", "iso8859-6",
    "iso8859-7", "iso8859-8", "iso8859-9", "iso8859-13", "iso8859-15", "mac-roman", "mac-cyrillic", "cp437", "cp850", "cp852",
)  # fmt: skip
"""The frequent ones first: they win where others say as much."""
AS_MUCH = 0.01
"""Of evidence, summed over the bytes beyond ASCII."""
RIGHT = ((0.2, 0.99), (0.1, 0.95), (0.04, 0.85), (0.0, 0.5))
"""From this confidence of the detector on this share of its guesses is right."""
NOISE = 0.04
"""Of noise it says less, and of several encodings about the same."""
SURE = 0.9
"""It says more of what shifts between ASCII and others."""
FEW = 10
DEPENDS = 0.15
"""So many bytes beyond ASCII, and this share, make a text unreadable if they are wrong."""
MOSTLY, MAYBE = 0.9, 0.75
"""The share of characters of UTF-8 from which on a text is UTF-8 with errors, and from which on it may be."""
SAMPLE = 200_000
"""Bytes from which an encoding is guessed."""

_DECLARED = re.compile(rb"""\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})["']""")
_NAMES = re.compile(r"cp\d|windows|iso|koi|mac|euc|gb|big5|hz|shift|tis|johab|kz|utf-7")
_WHOLE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_CUT = re.compile(rb"[\xe0-\xef][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{1,2}")
_NO_CONTROLS = dict.fromkeys(CONTROLS)
_BEYOND_ASCII = bytes(range(128, 256))
_CUT_END = re.compile(rb"(?:\xf0[\x90-\xbf][\x80-\xbf]?|\xe2[\x80-\xbf])\Z")
"""Half a picture character, or half a typographic one: letters of other encodings are not so."""
_SHIFTS = (b"\x1b$", b"~{")
"""How encodings of seven bits begin what is not ASCII."""

NO_TEXT = "The file is not text, nor of a format that memoryd reads. Save it as PDF, DOCX, Markdown or text, and give that."
NO_ENCODING = "The file is text in an encoding that it does not name and that cannot be told. Save it as UTF-8, and give that."


def decode(content: bytes, declared: str | None = None) -> tuple[str, dict[str, Any]]:
    """The text, clean, and what the metadata must say of its encoding: nothing if it is known.

    `declared`: what the file says of itself. Raises `UnreadableFileError`: not text, or in an encoding that cannot be told.
    """
    for mark, encoding in MARKS:
        if content.startswith(mark):
            text = content[len(mark) :].decode(encoding, "replace")
            if _rubbish(text.count("�") + text.count("\x00"), len(text)):
                raise UnreadableFileError(NO_TEXT)
            return clean(text), {}
    if _rubbish(len(content) - len(content.translate(None, CONTROLS)), len(content)):
        return _wide(content)
    if content.isascii() and not any(each in content for each in _SHIFTS):
        return clean(content.decode("ascii")), {}
    known = None
    if not content.isascii():
        with contextlib.suppress(UnicodeDecodeError):
            # With 'surrogatepass' also what old programs of Windows and Java write.
            known = content.decode("utf-8", "surrogatepass")
    if known is None and declared is None and (found := _DECLARED.match(content)):
        declared = found[1].decode("ascii")
    if known is None and declared is not None:
        known = _declared(content, declared)
    return (clean(known), {}) if known is not None else _guessed(content)


def clean(text: str) -> str:
    """Drops NUL, joins the halves of surrogate pairs, makes lone ones U+FFFD, and ends lines with a line feed."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return whole_characters(text)


def _declared(content: bytes, label: str) -> str | None:
    """None: the name is none of an encoding, or the bytes do not fit it."""
    found = webencodings.lookup(label)
    try:
        codec = codecs.lookup(found.codec_info.name if found and found.name != "replacement" else label).name
        # What says ASCII and is none says nothing, and without a mark or NULs nothing has two bytes a letter.
        if _NAMES.match(codec) is None or label.lower() in ("ascii", "us-ascii"):
            return None
        texts = (content.decode(name, "replace") for name in WIDER.get(codec, (codec,)))
        text = min(texts, key=lambda text: text.count("�"))
    except (LookupError, ValueError):
        return None
    return None if text.count("�") > max(2, MOST_LOST * len(text)) else text


def _whole_share(content: bytes) -> float:
    """How much of what is beyond ASCII are characters of UTF-8. A character that was cut counts as no UTF-8."""
    rest, whole = _WHOLE.subn(b" ", content)
    rest, cut = _CUT.subn(b" ", rest)
    other = cut + len(rest) - len(rest.translate(None, _BEYOND_ASCII))
    return 1.0 if other == 1 and (whole or _CUT_END.search(content)) else whole / max(1, whole + other)


def _wide(content: bytes) -> tuple[str, dict[str, Any]]:
    """A text of two or four bytes a letter that has no mark, or one that shifts by controls. Raises `UnreadableFileError`."""
    found = chardet.detect(content[:SAMPLE], include_encodings=GUESSED)["encoding"] or ""
    if found.lower().startswith(("utf-16", "utf-32", "iso-2022")):
        text = content.decode(found, "replace")
        if not _rubbish(text.count("�") + len(text) - len(text.translate(_NO_CONTROLS)), len(text)):
            return clean(text), _mark(found, 1.0)
    raise UnreadableFileError(NO_TEXT)


def _guessed(content: bytes) -> tuple[str, dict[str, Any]]:
    share = 0.0 if content.isascii() else _whole_share(content)
    if share >= MOSTLY:
        return clean(content.decode("utf-8", "replace")), {}
    sample = (
        b"\n".join(line for line in content.split(b"\n") if not line.isascii())[:SAMPLE] or content[:SAMPLE]
    )
    beyond = len(sample) - len(sample.translate(None, _BEYOND_ASCII))
    found = [
        (each["confidence"], codecs.lookup(each["encoding"]).name)
        for each in chardet.detect_all(sample, include_encodings=GUESSED, max_bytes=SAMPLE)
        if each["encoding"]
    ]
    best, second = sorted([*(confidence for confidence, _ in found), 0.0, 0.0], reverse=True)[:2]
    if (content.isascii() and best < SURE) or (share >= MAYBE and best < RIGHT[0][0]):
        return clean(content.decode("utf-8", "replace")), {}
    if best > second * 4:
        best = max(best, NOISE)
    if best < NOISE and beyond > max(FEW, DEPENDS * len(sample)):
        raise UnreadableFileError(NO_ENCODING)
    near = [name for confidence, name in found if (found[0][0] - confidence) * beyond <= AS_MUCH]
    name = min(near, key=lambda name: _RANKS.get(name, len(_RANKS)), default="cp1252")
    return clean(content.decode(name, "replace")), _mark(name, best)


_RANKS = {codecs.lookup(name).name: rank for rank, name in reversed(list(enumerate(GUESSED[:9])))}


def _mark(name: str, confidence: float) -> dict[str, Any]:
    right = next(share for least, share in RIGHT if confidence >= least)
    return {"encoding": name.lower(), "encoding_confidence": right}


def _rubbish(controls: int, total: int) -> bool:
    return controls > max(2, MOST_CONTROLS * total)
