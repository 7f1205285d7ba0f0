"""Tells what a prompt's writer says from what was pasted or quoted: files, e-mails, chats, logs, code.

English, German, Spanish, French and Chinese.
"""

# ruff: noqa: RUF001 - Chinese has its own punctuation

from __future__ import annotations

import re
from itertools import pairwise

TYPE_CHECKING = False  # importing typing takes too long
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_LINES = 12
"""A prompt with more lines has something pasted in it: then only its first and last lines count."""
EDGE_LINES = 2
MOST_READ = 200
"""Lines in which the beginning of what is pasted is looked for."""
LONGEST_LINE = 200
"""A longer line neither announces nor ends a document."""

PASTED = r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|<(\w[\w-]{0,40})(?:\s[^>\n]{0,500})?>[ ]*\n.*?(?:</\1>|\Z)"
OWN_LIST = (
    r"\b(?:rules?|conventions?|regeln?|reglas?|règles?)(?:\s(?:for|of|in|here|für|hier|de|del|du|pour|para)\b[\w\s'/-]{0,30})?"
    r"\W*\Z|(?:规则|约定)\W*\Z"
)
"""The end of a line that announces one's own rules."""
QUOTED = r"\"[^\"\n]{0,500}\"|“[^”\n]{0,500}”|„[^“”\n]{0,500}[“”]|«[^»\n]{0,500}»|「[^」\n]{0,500}」"
NAME = r"\W?(?:[^\W\d_]|[ /_'-]|\.(?! )){1,30}\W?"
"""A quotation that is a name: letters alone, so no password, and NAME_WORDS words or fewer. A rule keeps it."""
NAME_WORDS = 3
MARKED = r"\s{4,}|\t|\s*(?:#|//|>|\||\+|\*|--|/\*|<|E\s{2}|\d{4}-\d\d|\d+[.)]\s|[-–]\s|[\[(]?\d{1,2}:\d\d)"
"""The beginning of a line of code, of a log, of a list, of a chat or of a document."""
BULLET = r"\A\s{0,3}(?:[-–*•+]|\d{1,2}[.)])\s+"
FILE = (
    r"[@`'\"*]{0,3}[\w/~-][\w./~-]{0,99}\.[A-Za-z]\w{0,11}|\.[a-z]\w{2,20}|README|LICENSE|Makefile|Dockerfile"
)
TEXT = (
    rf"(?:(?:files?|guides?|guidelines|docs?|documents?|documentation|readme|texts?|e?-?mails?|messages?|prompts?|logs?|pages?"
    r"|handbook|wiki|polic(?:y|ies)|excerpt|template|contents?|datei(?:en)?|dokumente?|nachricht|seite|anleitung|archivos?"
    rf"|documentos?|textos?|correo|mensaje|página|guía|fichiers?|textes?|courriel)\b|{FILE})"
)
"""What a document is called."""
BEGINS = {
    "#": r"#{1,6}\s",
    "-": r"---\s*\Z|diff --",
    "@": r"@@ -",
    ".|readme|license|file": (
        rf"\s*(?:\$ ?)?(?:(?:cat|less|head|tail) )?(?:{FILE})[`'\"*]{{0,3}}(?:\s(?:\w+ )?(?:says|reads|sagt|dit|dice))?"
        r"\s*[:：]?\s*\Z"
    ),
    ": |：": r"(?:from|to|cc|subject|date|von|an|betreff|datum|para|asunto|fecha|objet|de|à|主题|发件人)\s?[:：]\s",
    ":": (
        r"\w[\w.]{0,30}(?: [\w.]{1,30})?(?:,|\s)\s*[\[(]?(?:\d{1,4}[./-]\d{1,2}[./-]\d{2,4},? )?\d{1,2}:\d\d(?::\d\d)?"
        r"(?: ?[ap]m)?[\])]?:?\s*\Z"
    ),
    "below|following|pasting|pasted|unten|folgend|siguiente|abajo|pego|suivant|ci-dessous": (
        rf"(?:[^\n:.]{{0,60}}\W)?(?:{TEXT}[^\n.?!:]{{0,20}}\s(?:below|follow(?:s|ing)|unten|abajo|ci-dessous)"
        rf"|(?:pasting|pasted|following|folgende\w*|siguientes?|pego|suivante?s?)\s(?:[^\n:.]{{0,30}}\W)?{TEXT})"
        r"[^\n.?!:]{0,20}\Z"
    ),
    "下|这是": r"[^\n。？！]{0,30}(?:如下|下面|以下|这是[^\n。]{0,10}(?:文件|文档|邮件|文本|日志|内容))\s*[:：]?\s*\Z",
}
"""A document begins with such a line, or behind it.

By words of which each has one: only then its pattern is compiled."""
ANNOUNCES = {
    "here|this is|these are|hier|das ist|aquí|este es|esta es|voici|voilà": (
        r"(?:here(?:'s|\s(?:is|are|comes?))?|th(?:is|ese)\s(?:is|are)|hier(?:\s(?:ist|sind|kommt))?|das\sist|aquí(?:\s(?:está|tienes|va))?"
        rf"|est[ea]\ses|voic?i|voilà)\s(?:[^\n:.]{{0,60}}\W)?{TEXT}[^\n:.?!]{{0,40}}(?:\s?[:：]|\s[-–]\s|\Z)"
    ),
    "翻译|缩短|总结|润色|改写": r"(?:请|帮我)*(?:翻译|缩短|总结|润色|改写)[^\n:：]{0,12}[:：]",
}
"""A document begins behind it, also in the same line: "here is the file: ..."."""
WORKS_ON = (
    r"(?:\^|(?:(?:can|could|would) you |pls |please |bitte |kannst du |por favor,? |puedes |peux-tu |and |now |请|帮我)*"
    r"(?:shorten|translate|summari[sz]e|proofread|rephrase|reword|polish|improve|review|explain|rewrite|answer|reply to|make"
    r"|what (?:do you think of|does|is)|kürze?|übersetze?|fasse?|korrigiere?|verbessere?|erkläre?|beantworte|was heißt"
    r"|traduce|acorta|corrige|mejora|explica|resume|résume|traduis|raccourcis|améliore|explique|relis|réponds à"
    r"|翻译|缩短|总结|润色|改写|解释)(?:\s[^\n.]{0,20}\W|\s|(?=[这上]))"
    rf"(?:__this__)[\u4e00-\u9fff]{{0,6}}(?:\s(?:[^\n.?!]{{0,20}}\W)?{TEXT})?(?:\s(?:up|shorter|better|clearer|mean|fine|ok|good|kürzer|besser|zusammen))?"
    r"(?:,?\s(?:to|into|for|so|auf|ins|al|en|please|bitte)\b[^\n.]{0,30})?\s*[.?!:：？]*\s*\Z)"
    r"|(?:that'?s|this is|das ist|das kommt|eso es|c'est) (?:from|aus|de|dans)\b[^\n]{0,60}"
    r"|(?:resúm|tradúc|acórt)\w+|\w+ez?-l[ea]\Z"
)
"""A line that asks for something to be done with a text, which stands before or behind it."""
THIS = (
    r"th(?:is|ese)|(?:my|our)(?=\s(?:prompt|text|e?-?mail|message)\b)|the following|diese\w*|folgende\w*|est[aeo]s?|cet?|cette"
    r"|ces|这个?"
)
THAT = rf"{THIS}|it|that|them|the above|das|ihn|sie|es|上面"
GREETS = (
    r"(?:hi|hello|hey|dear|hallo|liebe[rs]?|sehr geehrte\w*|hola|estimad[oa]s?|buen[oa]s|bonjour|salut|cher|chère)\b"
    r"[^\n.:]{0,40}\Z"
)
SIGNS = (
    r"(?:(?:kind |best |warm )?regards|best(?: wishes)?|cheers|sincerely|yours|thanks|thank you|br|(?:viele |liebe )?grüße|gruß"
    r"|lg"
    r"|mfg|vg|mit freundlichen grüßen|(?:un )?saludos?|atentamente|gracias|cordialement|merci) ?[,!.]?\s*\Z"
)
"""The first line of an e-mail, "Hi all,", and the one before the name that ends it, "Cheers,"."""
SIGNED = r"[^\W\d_a-zß-ÿ][\w.-]{0,30}(?: [\w.-]{1,30}){0,2}\s*\Z"
SAID = r"[^\W\d_][\w.-]{0,30}(?: [\w.-]{1,30})?[:：]\s+\S"
"""A line of a chat: "Bob: always run it"."""
OF_ONES_OWN = (
    r"(?:\w+ )?(?:rules?|notes?|remember|important|fyi|reminder|ps|regeln?|merke?|wichtig|hinweis|reglas?"
    r"|importante|nota|règles?)\b"
)


def own_words(prompt: str, announces: Callable[[str], object]) -> str:
    """The lines of a prompt that its writer says. `announces`: whether a line that ends with a colon comes before a rule."""
    # Of more blanks in a row a sentence needs none, and they would be gone through again from each of them.
    text = re.sub(r"[^\S\n]{5,}", " " * 4, prompt)
    if "```" in text or "~~~" in text or "<" in text:
        text = re.sub(PASTED, "\n", text, flags=re.DOTALL)
    lines = text.splitlines()
    if len(lines) > MOST_READ:
        lines = lines[:MOST_READ] + lines[-EDGE_LINES:]
    if len(lines) > 1:
        lines = _without_mail(_before_question(lines))
    lines = _without_chat(_before_document(lines, announces))
    if len(lines) > MOST_LINES:
        lines = lines[:EDGE_LINES] + lines[-EDGE_LINES:]
    text = "\n".join("" if re.match(MARKED, line) else line for line in _without_bullets(lines))
    if any(mark in text for mark in '"“„«「'):
        text = re.sub(QUOTED, _name_or_nothing, text)
    return text


def _is(form: str, line: str) -> re.Match[str] | None:
    return re.match(form, line, re.IGNORECASE) if len(line) <= LONGEST_LINE else None


def _announces_rules(line: str) -> bool:
    low = line.lower()
    listed = any(word in low for word in ("rule", "convention", "rege", "regla", "règle", "规则", "约定"))
    return listed and re.search(OWN_LIST, line, re.IGNORECASE) is not None


def _before_document(lines: list[str], announces: Callable[[str], object]) -> list[str]:
    """The lines before the one behind which a document stands, and this one."""
    end = max((nth for nth, line in enumerate(lines) if line.strip()), default=0)
    for nth, line in enumerate(lines[: end + 1]):
        if not line.strip():
            continue
        last = nth == end
        low = line.lower()
        for words, form in (ANNOUNCES if last else BEGINS | ANNOUNCES).items():
            if (
                any(word in low for word in words.split("|"))
                and (found := _is(form, line))
                and (last or not _announces_rules(line))
            ):
                return [*lines[:nth], line[: found.end()]]
        if not last and _is(WORKS_ON.replace("__this__", THIS), line):
            return lines[: nth + 1]
        if line.rstrip().endswith((":", "：")) and not (_announces_rules(line) or announces(line)):
            return lines[: nth + 1]
    return lines


def _before_question(lines: list[str]) -> list[str]:
    """Without a text that stands before what is asked about it: "shorten this" behind a blank line, "^ is that so"."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    apart = len(lines) > 1 and (not lines[-2].strip() or lines[-1].startswith("^"))
    return lines[-1:] if apart and _is(WORKS_ON.replace("__this__", THAT), lines[-1]) else lines


def _without_mail(lines: list[str]) -> list[str]:
    """Without an e-mail, from its first line to the name at its end."""
    ends = [
        nth + 1
        for nth, (line, name) in enumerate(pairwise(lines))
        if _is(SIGNS, line) and re.match(SIGNED, name)
    ]
    if not ends:
        return lines
    begin = next((nth for nth, line in enumerate(lines[: ends[-1]]) if _is(GREETS, line)), None)
    if begin is None and _announces_rules(lines[0]):
        return lines  # one's own, signed
    return [*lines[: begin or 0], *lines[ends[-1] + 1 :]]


def _without_chat(lines: list[str]) -> list[str]:
    """Without what several people say in a chat."""
    said = {
        nth
        for nth, line in enumerate(lines)
        if (":" in line or "：" in line) and re.match(SAID, line) and not _is(OF_ONES_OWN, line)
    }
    speakers = {re.split("[:：]", lines[nth], maxsplit=1)[0] for nth in said}
    return [line for nth, line in enumerate(lines) if nth not in said] if len(speakers) > 1 else lines


def _without_bullets(lines: list[str]) -> list[str]:
    """A list of one's own rules as sentences."""
    own = next((nth for nth, line in enumerate(lines) if _announces_rules(line)), len(lines))
    return [re.sub(BULLET, "", line) if nth > own else line for nth, line in enumerate(lines)]


def _name_or_nothing(quoted: re.Match[str]) -> str:
    text = quoted[0]
    return text if len(text.split()) <= NAME_WORDS and re.fullmatch(NAME, text) else "…"
