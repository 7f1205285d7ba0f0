"""Labels lines of a message that look like a marker of the context block but are not."""

from __future__ import annotations

import re
import string
import unicodedata

from memory.text import rendered

# Invisible too, but used in emoji and in some scripts.
_JOINERS = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c\u200d\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]"
)
# What may be read as a marker of the context block (memoryd.compose), with any kind of dashes.
_DRAWN = (
    r"-\u00b7\u2010-\u2012\u2020-\u2025\u2027\u203b\u2042\u2043\u204e-\u2051\u2055-\u205e\u2190-\u24ff"
    r"\u2580-\u2bff\u3030\u30fb\ufe63\uff0d_=~*#"
)
_LINES = r"\u2013-\u2015\u2500-\u257f\u2e3a\u2e3b\ufe58"
_SYMBOLS = (
    r"-_=~*#+<>|/\\&%$@^`{}\[\]\u00a1-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf\u00d7\u00f7"
    r"\u2010-\u2017\u2020-\u2025\u2027\u2030-\u205e\u2190-\u2bff\u3003-\u3020\u3030\u30fb"
    r"\ufe10-\ufe6f\uff0d\U0001f000-\U0001faff"
)
_BEGINS = r"(?:begin|start|end)[ _-]{1,20}(?:of[ _-]{1,20})?(?:the[ _-]{1,20})?context(?![^\W_])"
_MARKER = re.compile(
    rf"(?:(?:[{_DRAWN}] ?){{2}}|[{_LINES}])[\W_]{{0,20}}(?:of )?context\b"
    rf"|(?:(?:[{_SYMBOLS}] ?){{2}}|[{_LINES}])[\W_]{{0,20}}(?:{_BEGINS}|context[ _][^\n]{{0,40}}curated)",
    re.IGNORECASE,
)
_WORD = re.compile("context", re.IGNORECASE)
_BEFORE, _BEHIND = 100, 60  # the most characters of a marker around the word
# Full-width, circled and mathematical letters, as plain letters.
_STYLED_LETTERS: dict[int, str | int] = {
    code: unicodedata.normalize("NFKC", chr(code))
    for first, last in (
        (0x02B0, 0x02E4),
        (0x1D00, 0x1DBF),
        (0x2070, 0x209F),
        (0x2100, 0x214F),
        (0x2460, 0x24FF),
        (0xFE64, 0xFE64),
        (0xFF01, 0xFF5E),
        (0x1D400, 0x1D7FF),
        (0x1F110, 0x1F14F),
    )
    for code in range(first, last + 1)
}
# Marks on letters, and letters that look like Latin ones: memoryd.looks_like() has the same.
_STYLED_LETTERS |= {
    code: ""
    for first, last in (
        (0x300, 0x36F),
        (0x483, 0x489),
        (0x1AB0, 0x1AFF),
        (0x1DC0, 0x1DFF),
        (0x20D0, 0x20FF),
        (0xFE20, 0xFE2F),
    )
    for code in range(first, last + 1)
}
_STYLED_LETTERS |= {
    first + n: letter
    for first in (0x1F150, 0x1F170, 0x1F1E6)
    for n, letter in enumerate(string.ascii_uppercase)
}
_STYLED_LETTERS |= str.maketrans(
    "\u0430\u0412\u0432\u0435\u0456\u043e\u0441\u0445\u0442\u0455\u0501\u0433\u043d\u043f"
    "\u0410\u0415\u0406\u041e\u0421\u0425\u0422\u0405\u0500\u041d\u0440\u0443\u0420\u0423"
    "\u043c\u041c\u03b1\u03b5\u03b9\u03bf\u03c7\u03c4\u03b7\u0391\u0392\u0395\u0399\u039f"
    "\u03a7\u03a4\u039d\u0397\u03a1\u03a5\u039c"
    "ᴀʙᴄᴅᴇɢʜɪᴍɴᴏᴘʀꜱᴛᴜʏⲀⲂⲤⲈⲒⲘⲚⲞⲢⲦⲨⲬꓮꓐꓚꓓꓰꓖꓧꓲꓟꓠꓳꓑꓣꓢꓔꓴꓬꓫᎪᏴᏟᎠᎬᏀᎻᎷᏢᏒᏚᎢ",
    "aBbeiocxtsdrhnAEIOCXTSDHpyPYmMaeioxtnABEIOXTNHPYM"
    "ABCDEGHIMNOPRSTUYABCEIMNOPTYXABCDEGHIMNOPRSTUYXABCDEGHMPRST",
)
_APART = r"[ ._*~|()\u00b7-]{1,3}"
_SPACED = re.compile(r"\bc#o#n#t#e#x#t\b".replace("#", _APART), re.IGNORECASE)
_SPACED_BEFORE = re.compile(
    r"\b(?:e#n#d|s#t#a#r#t|b#e#g#i#n)#(?:o#f#)?(?:t#h#e#)?(?=context)".replace("#", _APART), re.IGNORECASE
)
_BETWEEN_LETTERS = str.maketrans("", "", " ._*~|()\u00b7-")
NO_MARKER = "[no marker of memoryd's] "


def unframed(text: str) -> str:
    """The text, with a label on each line that looks like a marker of the context block.

    It is for a text that follows such a block in one stream, and is not written by memoryd.
    """
    if "context" not in _plain(text).casefold() and text.replace("\n", " ").isprintable():
        return text
    return "".join(
        NO_MARKER + line if _has_marker(_plain(rendered(line))) else line
        for line in text.splitlines(keepends=True)
    )


def _has_marker(line: str) -> bool:
    # The search is only around the word, since a megabyte of dashes has many beginnings of a marker.
    return any(
        _MARKER.search(line, max(word.start() - _BEFORE, 0), word.end() + _BEHIND)
        for word in _WORD.finditer(line)
    )


def _plain(text: str) -> str:
    """The text in plain letters, without invisible characters, and with spaced-out words joined."""
    if not text.isascii():
        text = _JOINERS.sub("", text)
        if not text.isprintable():
            text = "".join(character for character in text if character.isprintable() or character.isspace())
        text = text.translate(_STYLED_LETTERS)
    if "context" in text.translate(_BETWEEN_LETTERS).casefold():
        text = _SPACED_BEFORE.sub("end ", _SPACED.sub("context", text))
    return text
