"""Finds the standing rules that a prompt states: what holds for later sessions too, such as "always run tests with make".

A rule stands at the beginning of a sentence, and the sentence orders or states. What asks, quotes, or was pasted states none.
English, German, Spanish, French and Chinese.
"""

# ruff: noqa: RUF001 - Chinese has its own punctuation

from __future__ import annotations

import re

MOST_RULES = 5
LONGEST_RULE = 300
MOST_LINES = 12
"""A prompt with more lines has something pasted in it: then only its first and last lines count."""
EDGE_LINES = 2

PASTED = r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|<(\w[\w-]{0,40})(?:\s[^>\n]{0,500})?>[ ]*\n.*?(?:</\1>|\Z)"
HEADING = r"#{1,6}\s"
"""A document begins here; so does one after a line like "here is our CONTRIBUTING.md:"."""
OWN_LIST = r"(?i)\b(?:rules?|conventions?|regeln?|reglas?|règles?)\W*\Z|(?:规则|约定)\W*\Z"
"""The end of a line that announces one's own rules."""
QUOTED = r"\"[^\"\n]{0,500}\"|“[^”\n]{0,500}”|„[^“”\n]{0,500}[“”]|«[^»\n]{0,500}»|「[^」\n]{0,500}」"
NAME = r"\W?(?:[^\W\d_]|[ /_'-]|\.(?! )){1,30}\W?"
"""A quotation that is a name: letters alone, so no password, and NAME_WORDS words or fewer. A rule keeps it."""
NAME_WORDS = 3
MARKED = r"\s{4,}|\t|\s*(?:#|//|>|\||\+|\*|--|/\*|<|E\s{2}|\d{4}-\d\d|\d+[.)]\s|[-–]\s)"
"""The beginning of a line of code, of a log, of a list or of a document."""
SENTENCE = (
    r"(?<=[.!?])\s+|(?<=[。！？；])|\n+|;\s+"
    r"|,?\s+(?:and|und|y|et)\s+(?=(?:please\s+)?"
    r"(?:from now on|for the future|always|never|ab jetzt|a partir de ahora|désormais)\b)"
)
LEAD = (
    r"(?:(?:please|pls|and|also|ok|okay|oh|btw|by the way|one more thing|hey|bitte|und|auch|übrigens|por favor|y|además|ah"
    r"|s'il te plaît|stp|et|aussi|au fait)[\s,:]+|(?:请|另外|对了|还有)[\s,:，：]*)*"
)
ASKS = (
    r"(?:do|does|did|is|are|was|were|can|could|should|shall|would|will|why|what|when(?! you)|where|who|how|which"
    r"|warum|wieso|was|wie|wann|wo|wer|muss|müssen|soll|sollen|kann|kannst|können|¿|por qué|pourquoi|est-ce)\b"
)
PASSING = (
    r"(?i)\b(?:today|tomorrow|tonight|yesterday|this time|heute|morgen|gestern|diesmal|hoy|(?<!la )mañana|ayer|esta vez"
    r"|aujourd'hui|demain|cette fois)\b|今天|明天|昨天|这次"
    r"|\b(?:in|on|for|to) this (?!repo|project|code ?base|team|company|directory|folder)\w"
)
"""What holds for a day, or for one place in the code, is no rule of the project."""
GERMAN = (
    "(?:nutze?|verwende|schreibe?|führe?|benutze?|mache?|nimm|lege?|lass|antworte|teste|formatiere?|prüfe?|halte|setze?|frage?"
    "|fasse?|starte?|baue?|pushe?|committe|lösche?|ändere?|stelle?)"
)
SPANISH = (
    "(?:usa|utiliza|escribe|ejecuta|corre|pon|haz|formatea|responde|contesta|comprueba|añade|crea|lanza|guarda|mantén|nombra"
    "|documenta|prueba)"
)
FRENCH = (
    "(?:utilise|écri[st]|écrive|lance|met(?:s|te)|fai[st]|garde|réponds?|formate|ajoute|crée|exécute|teste|documente|passe|nomme"
    "|commente|vérifie)z?"
)
# Of each language: words without which it states no rule; what stands before a rule; and what a rule begins with itself.
ENGLISH = (
    "(?:use|run|write|deploy|test|build|format|lint|name|call|keep|store|put|merge|commit|support|target|answer|reply|make|add"
    "|ask|avoid|prefix|include|skip|leave|start|speak|explain|sign|tag)"
)
VERBS = {"en": ENGLISH, "de": GERMAN, "es": SPANISH, "fr": FRENCH}
PATH = r"(?=\S*\w(?:/|[._-]\w))"
"""Before a path or the name of a machine: "our tests are in tests/api" states where, "are in a bad state" does not."""
LANGUAGES = {
    "en": (
        (
            "always|never|ever|remember|mind|note|forget|now on|here on|forward|future|time you|when you|whenever|stop|we|our"
            "|prefer|as a rule|(?:in|for) this"
        ),
        (
            r"(?:remember|keep in mind|note (?:for [\w ]{1,20}|to self)|don't forget|do not forget)(?:\s+this)?"
            r"(?:\s*[:,]\s*(?:that\s+)?|\s+that\s+)(?!\s*i (?:only|already|just)\b)"
            r"|(?:from now on|from here on|going forward|in (?:the )?future|for (?:the future|future reference))[\s,:]+"
            r"(?!(?:(?:only )?the|this|that|it|he|she|they|there|a|an|with|versions?|releases?"
            r"|we (?:may|might|could|will|want|plan))\b)"
            r"|as a rule\s*[,:]\s*"
        ),
        (
            r"(?:we (?!\w+ (?:get|have|see|need|want|forget|lose|end)\b)"
            r"|you (?:must|should|may|have to) (?!\w+ (?:see|be|get|know|have|need|find)\b)"
            r"|make sure (?:to|you) |(?:be sure|remember) to )?(?:always|never)\s+"
            r"(?!(?:mind|ever|seen|saw|heard|had|has|been|is|are|was|were|worked|works|happened|again|the|a|an|in|on|got|gets|knew"
            r"|fails?|returns?|thought|did|made|took|went|came|wrote|ran|said|found)\b)(?!\w+(?:[^e]ed|ing)\b)\w+\s+\S"
            r"|(?:don't|do not|dont)\s(?:[^?,]*\s)?ever\b"
            r"|(?:whenever|every time|each time)\s+you\s(?!are\b|have\b|can\b)[^?,]+"
            r"(?:,\s(?!(?:it|i|we|you|they|there|the|this|that)\b)|\syou (?:have to|must|should|need to)\s)"
            r"|when\s+you\s[^?,]+,\s(?:please\s)?(?:always|never)\b"
            r"|we (?:don't|do not|dont)\s(?!(?:need|have|know|want|see|get)\b)[^?]*"
            r"\b(?:here|in (?:this|our) (?:repo|repository|project|codebase|team))\W*\Z"
            r"|stop\s+(?!asking and\b)(?:adding|using|writing|putting|creating|committing|asking)\s"
            r"(?![^?]*(?:\b(?:in|to|on|of|from) th(?:is|at|[eo]se)\b|\bnow\b|,\s(?:we|i|it)\b))"
            r"|(?:in|for) (?:this|our) (?:repo|repository|project|code ?base|team|company),?\s+"
            r"(?:we (?!(?:have|had|are|were|see|need|got|found)\b)|always\b|never\b|use\b"
            r"|(?!(?:i|you|it|there|the)\b)[^?,]{1,40}\b(?:must|should|needs?|ha(?:s|ve) to|goes?|lives?|starts?)\b)"
            r"|we (?:only (?=__verb__)|__verb__\s[^?]*(?:,\s*(?:not|never)|\binstead of|\brather than)\s)"
            r"|(?:__verb__|don't|do not|no|only)\s[^?]*\s(?:from now on|from here on|going forward|in (?:the )?future)\b"
            r"|our (?:rule|convention|policy|standard)s?(?:\s*:|\s(?:is|are)(?::|\s(?:to|that)\b))"
            r"|our\s[\w\s/-]{1,40}?\s(?:lives?|sits?|goes?|go|(?:is|are)(?: kept| stored|(?= \w+ __path__)))\s"
            r"(?:in|at|under|on)\s"
            r"|i (?:always |generally |usually )?prefer\s(?!(?:the|this|that|it)\b)[^?]*\b(?:over|to|instead of|rather than)\s"
        ),
    ),
    "de": (
        "immer|stets|nie|niemals|merke?|denke?|beachte|vergiss|ab|nun|künftig|zukunft|diesem|unsere?m?|wir",
        (
            r"(?:merke?\s+dir|denke?\s+daran|beachte|vergiss\s+nicht)(?:\s+(?:bitte|das))?(?:\s*:\s*|\s*,?\s+dass\s+)"
            r"|(?:ab jetzt|ab sofort|ab heute|von nun an|künftig|in zukunft)[\s,:]+"
            r"(?=bitte\b|immer\b|nie\b|niemals\b|nur\b|alle\b|keine?\b|\w+en wir\b|(?-i:[A-ZÄÖÜ])|__verb__\b)(?:bitte\s+)?"
        ),
        (
            r"__verb__\s(?!(?:das|es|dies)\s(?:bitte\s)?(?:immer|nie|niemals)\b)(?:\S+\s){0,4}?"
            r"(?:immer|stets|nie|niemals|ab jetzt|ab sofort|künftig|in zukunft)\b"
            r"|(?:immer|stets|nie|niemals)\s(?:[^.?]|\.(?=\w))*en\b\W*\Z"
            r"|(?:in diesem|in unserem) (?:repo|projekt|team|repository)\s+(?!haben|hatten|sind|sehen|brauchen)\w+\s+wir\b"
            r"|wir (?:verwenden|nutzen|benutzen|schreiben)\s[^?]*\b(?:nicht|kein\w*|statt)\s"
            r"|unsere?\s[\w\s/-]{1,40}?\s(?:liegt|liegen|stehen|steht|(?:sind|ist)(?= \w+ __path__))\s(?:in|unter|auf)\s"
        ),
    ),
    "es": (
        "siempre|nunca|jamás|recuerda|acuérdate|cuenta|apunta|anota|olvides|ahora|adelante|este|nuestr[oa]s?",
        (
            r"(?:recuerda|acuérdate(?:\s+de)?|ten\s+en\s+cuenta|apunta|anota|no\s+olvides)(?:\s+esto)?(?:\s*[:,]\s*|\s+que\s+)"
            r"|(?:a partir de ahora|de ahora en adelante|desde ahora|en adelante)[\s,:]+(?!(?:el|la|los|las|esto|eso|se)\b)"
        ),
        (
            r"__verb__\s(?:\S+\s){0,3}?(?:siempre|a partir de ahora|de ahora en adelante)\b|siempre\s+__verb__\b"
            r"|(?:no\s+)?(?:nunca|jamás)\s+\w+[ae]s\b|no\s+\w+[ae]s\s+(?:nunca|jamás)\b"
            r"|en (?:este|nuestro) (?:repo|proyecto|repositorio|equipo),?\s+(?:siempre\s+|nunca\s+|no\s+)?"
            r"(?!(?:ten|h|v|est|pod)[aei]mos\b)\w+[aei]mos\b"
            r"|nuestr[oa]s?\s[\w\s/-]{1,40}?\s(?:viven?|están?(?= \w+ __path__))\s(?:en|bajo)\s"
        ),
    ),
    "fr": (
        (
            "toujours|jamais|retiens|souviens|rappelle|garde|oublie|note|désormais|dorénavant|maintenant|avenir|ce|notre|nos|on"
            "|nous|arrête"
        ),
        (
            r"(?:retiens|souviens-toi|rappelle-toi|garde\s+en\s+tête|n'oublie\s+pas)(?:\s+(?:bien|ceci))?"
            r"(?:\s*[:,]\s*|\s+qu(?:e\s+|'))"
            r"|(?:désormais|dorénavant|à partir de maintenant|à l'avenir)[\s,:]+"
            r"(?!(?:l[ea]s?|ça|cela|il|elle|on (?:a|est|ne))\b|l')"
        ),
        (
            r"__verb__\s(?:\S+\s){0,3}?(?:toujours|désormais|à partir de maintenant)\b|toujours\s+\w+(?:er|ir|re)\b"
            r"|(?:ne\s+|n')(?!\w+ons\b)\w+\s+(?:\S+\s)?jamais\b|ne\s+jamais\s+\w+(?:er|ir|re)\b"
            r"|(?:on|nous) utilis(?:e|ons)\s[^?]*(?:,\s*pas\b|\bau lieu d|\bplutôt qu)"
            r"|arrête d(?:e |')(?:mettre|utiliser|ajouter|écrire)\b"
            r"|dans (?:ce|notre) (?:repo|projet|dépôt|équipe),?\s+(?:on|nous)\s(?!(?:a|avons|est|sommes|en|y)\b)"
            r"|n(?:otre|os)\s[\w\s/-]{1,40}?\s(?:(?:est|sont)(?= \w+ __path__)|se trouvent?)\s(?:dans|sous|sur)\s"
        ),
    ),
    "zh": (
        "",
        (
            r"(?:请?记住|请?记得)\s*[:：,，]\s*|(?:以后|今后|从现在起|从现在开始|从今以后)[,，]?\s*"
            r"(?!再|的|可能|也许|[它他她]|[这那](?!个?(?:仓库|项目|代码库)))"
        ),
        (
            r"(?:永远不要|永远别|千万不要|绝对不要|绝不要|不要再|别再|一律|始终|总是用|总是使用|永远用)\S"
            r"|(?:在)?(?:这个|本|我们的?)(?:仓库|项目|代码库)(?:里|中)?[,，]?\s*(?:我们)?(?:都|一律|只|不)?(?:用|使用|要|放|写)"
            r"|我们(?:都|只|一直)?用[^吗？?]*(?:不用|不是)|我们的\S+?(?:放在|位于|都在(?=\s*[\w./`]*[a-z]))\S"
        ),
    ),
}
CJK = r"[\u3040-\u30ff\u4e00-\u9fff]+"
STEM = 4
"""Characters by which words are compared: "tests" and "test", "migrations" and "migrate" are the same."""
WORD = r"[^\W\d_][\w'/.-]*|\d+"
BARE = (
    "always never ever the and with for not this that our are must should please from now you use used in we to is it immer "
    "nie niemals mit und der die das den bitte nicht wir ist sind siempre nunca con las los para que toujours jamais avec les "
    "des pour pas dans est sont une"
)


def rules_in(prompt: str) -> list[str]:
    """The standing rules that a prompt states, in its own words, each of at most LONGEST_RULE characters."""
    # A hook lives for a moment, and to compile a pattern takes a part of it: so only those of its languages.
    languages = [
        [
            re.compile(
                one.replace("__verb__", VERBS.get(language, "")).replace("__path__", PATH), re.IGNORECASE
            )
            for one in (before, itself)
        ]
        for language, (words, before, itself) in LANGUAGES.items()
        if re.search(rf"(?i)\b(?:{words})\b" if words else CJK, prompt)
    ]
    if not languages:
        return []
    # Of more blanks in a row a sentence needs none, and they would be gone through again from each of them.
    lines = re.sub(PASTED, "\n", re.sub(r"[^\S\n]{5,}", " " * 4, prompt), flags=re.DOTALL).splitlines()
    for nth, line in enumerate(lines):
        if re.match(HEADING, line) or (
            re.search(r"[:：]\s*\Z", line)
            and not re.search(OWN_LIST, line)
            and not any(before.match(line) for before, _ in languages)
        ):
            lines = lines[: nth + 1]
            break
    if len(lines) > MOST_LINES:
        lines = lines[:EDGE_LINES] + lines[-EDGE_LINES:]
    text = re.sub(
        QUOTED, _name_or_nothing, "\n".join("" if re.match(MARKED, line) else line for line in lines)
    )
    found = []
    for sentence in re.split(SENTENCE, text, flags=re.IGNORECASE):
        said = re.sub(rf"\A\s*{LEAD}", "", sentence, count=1, flags=re.IGNORECASE).strip()
        if "?" in said or said.endswith(("？", "吗", "…")) or re.match(ASKS, said, re.IGNORECASE):
            continue
        for before, itself in languages:
            start = before.match(said)
            if not (start or itself.match(said)):
                continue
            rule = said[start.end() if start else 0 :].strip(" \t.。!！,，;；")
            least = 2 if re.search(CJK, rule) else 5
            if least <= len(rule) <= LONGEST_RULE and rule not in found and not re.search(PASSING, said):
                found.append(rule)
            break
    return found[:MOST_RULES]


def _name_or_nothing(quoted: re.Match[str]) -> str:
    text = quoted[0]
    return text if len(text.split()) <= NAME_WORDS and re.fullmatch(NAME, text) else "…"


def words_of(rule: str) -> list[str]:
    """The words by which two rules are compared; pairs of characters where a language has no spaces."""
    words = set(re.findall(WORD, re.sub(CJK, " ", rule.lower()))) - set(BARE.split())
    pairs = {run[i : i + 2] for run in re.findall(CJK, rule) for i in range(max(1, len(run) - 1))}
    return sorted(words | pairs)


def words_shared(rule: str, text: str) -> int:
    """How many words of a rule a text has, also with another ending."""
    return len({word[:STEM] for word in words_of(rule)} & {word[:STEM] for word in words_of(text)})


def rule_key(project: str) -> str:
    """The beginning of the keys of a project's rules; the project may be too long for a key."""
    from hashlib import sha256

    return f"rule/{sha256(project.encode()).hexdigest()[:32]}"
