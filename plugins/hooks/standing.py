"""Finds the standing rules that a prompt states: what holds for later sessions too, such as "always run tests with make".

A rule is a sentence in its writer's own words: one that says so (REMINDER, HENCE, EXPLICIT), or one that reads like a rule by
what was learned from others' prompts (stating.py). What asks, quotes, or was pasted states none. English, German, Spanish,
French and Chinese.
"""

# ruff: noqa: RUF001 - Chinese has its own punctuation

from __future__ import annotations

import re

from plugins.hooks.quoting import own_words

TYPE_CHECKING = False  # importing typing takes too long
if TYPE_CHECKING:
    from plugins.hooks.stating import Reader

MOST_RULES = 5
LONGEST_RULE = 300
MOST_SENTENCES = 40

ABBREVIATED = (
    r"(?<!/\.\.\.)(?<!\b[^\W\d_]\.)(?<!\b(?:vs|dr|nr|ca|ej)\.)(?<!\b(?:esp|bzw|ggf)\.)(?<!\b(?:incl|inkl|resp|evtl)\.)"
    r"(?<!\bapprox\.)"
)
"""Behind "go test ./...", "e.g." and the like no sentence ends."""
SENTENCE = (
    rf"(?<=[.!?]){ABBREVIATED}\s+|(?<=[。！？；])|\n+|;\s+"
    r"|,?\s+(?:and|und|y|et)\s+(?=(?:please\s+)?"
    r"(?:from now on|for the future|always|never|ab jetzt|a partir de ahora|désormais)\b)"
)
LEAD = (
    r"(?:(?:please|pls|and|also|ok|okay|oh|btw|by the way|one more thing|hey|bitte|und|auch|übrigens|por favor|y|además|ah"
    r"|s'il te plaît|stp|et|aussi|au fait)[\s,:]+|(?:请|另外|对了|还有)[\s,:，：]*)*"
)
PASSING = (
    r"(?i)\b(?:today|tomorrow|tonight|yesterday|this time|heute|morgen|gestern|diesmal|hoy|(?<!la )mañana|ayer|esta vez"
    r"|aujourd'hui|demain|cette fois)\b|今天|明天|昨天|这次"
    r"|\b(?:in|on|for|to) this (?!repo|project|code ?base|team|company|directory|folder)\w"
)
"""What holds for a day, or for one place in the code, is no rule of the project."""
REMINDER = {
    "remember|mind|note|forget": (
        r"(?:remember|keep in mind|note (?:for [\w ]{1,20}|to self)|don't forget|do not forget)(?:\s+this)?"
        r"(?:\s*[:,]\s*(?:that\s+)?|\s+that\s+)(?!\s*i (?:only|already|just)\b)"
    ),
    "merk|denk|beachte|vergiss": (
        r"(?:merke?\s+dir|denke?\s+daran|beachte|vergiss\s+nicht)(?:\s+(?:bitte|das))?(?:\s*:\s*|\s*,?\s+dass\s+)"
    ),
    "recuerda|acuérdate|cuenta|apunta|anota|olvides": (
        r"(?:recuerda|acuérdate(?:\s+de)?|ten\s+en\s+cuenta|apunta|anota|no\s+olvides)(?:\s+esto)?(?:\s*[:,]\s*|\s+que\s+)"
    ),
    "retiens|souviens|rappelle|tête|oublie": (
        r"(?:retiens|souviens-toi|rappelle-toi|garde\s+en\s+tête|n'oublie\s+pas)(?:\s+(?:bien|ceci))?"
        r"(?:\s*[:,]\s*|\s+qu(?:e\s+|'))"
    ),
    "记住|记得": r"请?(?:记住|记得)\s*[:：,，]\s*",
}
"""Who says this wants what follows remembered, whatever it is: a password, too, which is then refused.

By words of which each has one: only then its pattern is compiled."""
HENCE = {
    "on|forward|future|rule": (
        r"(?:from now on|from here on|going forward|in (?:the )?future|for (?:the future|future reference))[\s,:]+"
        r"(?!(?:(?:only )?the|this|that|it|he|she|they|there|a|an|i|i'll|with|versions?|releases?"
        r"|we (?:may|might|could|will|want|plan))\b)"
        r"|as a rule\s*[,:]\s*"
    ),
    "ab |nun an|künftig|zukunft": (
        r"(?:ab jetzt|ab sofort|ab heute|von nun an|künftig|in zukunft)[\s,:]+"
        r"(?=bitte\b|immer\b|nie\b|niemals\b|nur\b|alle\b|keine?\b|\w+en wir\b|(?-i:[A-ZÄÖÜ]))(?:bitte\s+)?"
    ),
    "ahora|adelante": (
        r"(?:a partir de ahora|de ahora en adelante|desde ahora|en adelante)[\s,:]+(?!(?:el|la|los|las|esto|eso|se)\b)"
    ),
    "désormais|dorénavant|maintenant|avenir": (
        r"(?:désormais|dorénavant|à partir de maintenant|à l'avenir)[\s,:]+"
        r"(?!(?:l[ea]s?|ça|cela|il|elle|on (?:a|est|ne))\b|l')"
    ),
    "以后|今后|从现在起|从现在开始|从今以后": (
        r"(?:以后|今后|从现在起|从现在开始|从今以后)[,，]?\s*(?!再|的|可能|也许|[它他她]|[这那](?!个?(?:仓库|项目|代码库)))"
    ),
}
"""The beginning of a rule that it does not need."""
PATH = r"(?=\S*\w(?:/|[._-]\w))"
"""Before a path or the name of a machine: "our tests are in tests/api" states where, "are in a bad state" does not."""
EXPLICIT = {
    "now on|here on|forward|ab jetzt|ab sofort|nun an|ahora|adelante|désormais|dorénavant|maintenant": (
        r"(?!(?:the|this|that|it|he|she|they|there|we'll|der|die|das|es|el|la|l[ea]|il|elle|ça|cela)\b|(?:.*\W)?(?:i|ich|yo|je)\b)"
        r".+\s(?:from (?:now|here) on|going forward|ab jetzt|ab sofort|von nun an|a partir de ahora|de ahora en adelante"
        r"|désormais|dorénavant|à partir de maintenant)(?:,?\s(?:please|pls|bitte|por favor|stp))?\W*\Z"
    ),
    "always|never|ever": (
        r"(?:we |you (?:must|should|have to) |(?:make|be) sure to |remember to )?(?:always|never)\s+"
        r"(?!(?:mind|ever|again|the|a|an|in|on|true|false|null|seen|saw|heard|had|been|were|knew|thought|did|made|took|went"
        r"|came|wrote|ran|said|found|got|get|see|have|need|want|forget|lose|end|be|know|find)\b|\w+(?:[^e]ed|ing|[^s]s)\b)"
        r"[a-z]+\s+\S|(?:don't|do not|dont)\s(?:[^?,]*\s)?ever\b"
    ),
    "our |this ": (
        r"(?:our|in (?:our|this) (?:repo|repository|project|code ?base),?(?: the| all)?)\s[\w\s/-]{1,40}?\s"
        r"(?:lives?|sits?|goes?|go|(?:is|are)(?: kept| stored|(?= \w+ __path__)))\s(?:in|at|under|on)\s"
    ),
    "immer|stets|nie": r"(?:immer|stets|nie|niemals)\s(?:[^.?]|\.(?=\w))*en\b\W*\Z",
    "unser|diesem|bei uns": (
        r"(?:unsere?\s[\w\s/-]{1,40}?\s(?:liegt|liegen|stehen|steht|(?:sind|ist)(?= \w+ __path__))"
        r"|(?:in (?:diesem|unserem) (?:repo\w*|projekt)|bei uns)\s(?:liegt|liegen|stehen|steht|sind|ist)\s[\w\s/-]{1,40}?"
        r"(?= \w+ __path__))\s(?:in|unter|auf)\s"
    ),
    "nunca|jamás|nuestr|este ": (
        r"(?:no\s+)?(?:nunca|jamás)\s+\w+[ae]s\b|no\s+\w+[ae]s\s+(?:nunca|jamás)\b"
        r"|(?:nuestr[oa]s?|en (?:este|nuestro) (?:repo\w*|proyecto),? (?:el|los?|las?))\s[\w\s/-]{1,40}?\s"
        r"(?:viven?|están?(?= \w+ __path__))\s(?:en|bajo)\s"
    ),
    "jamais|toujours": (
        r"(?:ne\s+|n')(?!\w+ons\b)\w+\s+(?:\S+\s)?jamais\b|(?:ne\s+jamais|toujours)\s+\w+(?:er|ir|re)\b"
    ),
    "notre|nos|dans ce|nous": (
        r"(?:n(?:otre|os)|(?:dans (?:ce|notre) (?:dépôt|repo|projet)|chez nous),? l(?:es?|a))\s[\w\s/-]{1,40}?\s"
        r"(?:(?:est|sont)(?= \w+ __path__)|se trouvent?)\s(?:dans|sous|sur)\s"
    ),
    "不|别|一律|始终|总是|永远|我们的|这个|本": (
        r"(?:永远不要|永远别|千万不要|绝对不要|绝不要|不要再|别再|一律|始终|总是用|总是使用|永远用)[^了吧]*\Z"
        r"|(?:我们的|在?(?:这个|本)(?:仓库|项目|代码库)[里中的]?[,，]?)[^,，。\n]{1,40}?(?:(?:放在|位于)\s*\S|在\s?(?=[\w.-]{1,99}/))"
        r"|在(?:这个|本)(?:仓库|项目|代码库)[里中]?[,，]?\s*(?:必须|只能|统一|不要|不能|不许|不准|禁止)[^了吧]*\Z"
    ),
}
"""Says that it is a rule. What says so otherwise, or not at all, is for the learned weights."""
CJK = r"[\u3040-\u30ff\u4e00-\u9fff]+"
STEM = 4
"""Characters by which words are compared: "tests" and "test", "migrations" and "migrate" are the same."""
WORD = r"[^\W\d_][\w'/.-]*|\d\d+"
BARE = (
    "a about after again all also always an and any anything are as at be been before but by can cannot could did do does "
    "doesn't doing don't done dont even ever every for from get gets got had has have he here how i i'm if im in into is "
    "isn't it it's its just let's like may me more my need never new no not now of off ok on one only or other our out over "
    "please really same she should so some something still than that the their them then there these they thing things this "
    "those to too two up us use used want was we were what when where which who why will with would yes you your aber alle "
    "als am auch auf aus bei bitte da das dass dem den der des die doch ein eine einen er es für hier ich immer ist ja "
    "jetzt kann kein keine man mir mit nach nicht nie niemals noch nur oder sich sie sind um und uns von wenn wie wir wird "
    "zu zum zur al como con cuando de del el en esta este hay la las lo los mi más nunca o para pero por porque que qué se "
    "si siempre sin su un una y ya au aux avec ce ces cette dans du et il je jamais le les leur mais ne nous ou où par pas "
    "plus pour quand qui sans son sont sur toujours tu une vous"
)
"""What a rule and a prompt share that says nothing of either: they fit each other by other words."""
BARE_WORDS = frozenset(BARE.split())


def rules_in(prompt: str, reader: Reader | None = None) -> list[str]:
    """The standing rules that a prompt states, in its own words, each of at most LONGEST_RULE characters."""
    if reader is None:
        from plugins.hooks.stating import Reader as Shipped

        reader = Shipped()
    found: list[str] = []
    sentences = sentences_of(prompt)
    for nth, said in enumerate(sentences):
        if "?" in said or said.endswith(("？", "吗", "…", ":", "：")) or len(said) > LONGEST_RULE:
            continue
        start = _begins(REMINDER, said) or _begins(HENCE, said)
        states = start or reader.states(said, nth, len(sentences)) > 0 or _begins(EXPLICIT, said)
        if not states or re.search(PASSING, said):
            continue
        text = said[start.end() if start else 0 :].lstrip(" \t。!！,，;；")
        rule = text.rstrip(" \t.。!！,，;；")
        rule += "..." * (rule.endswith("/") and text.startswith(f"{rule}..."))
        least = 2 if max(rule, default="") >= "\u3040" else 5
        if len(rule) >= least and rule not in found:
            found.append(rule)
    return found[:MOST_RULES]


def _begins(forms: dict[str, str], text: str) -> re.Match[str] | None:
    # A hook lives for a moment, and to compile a pattern takes a part of it: so only those whose words are there.
    low = text.lower()
    for words, form in forms.items():
        if any(word in low for word in words.split("|")) and (
            found := re.match(form.replace("__path__", PATH), text, re.IGNORECASE)
        ):
            return found
    return None


def sentences_of(prompt: str) -> list[str]:
    """What a prompt says in its writer's own words, sentence by sentence."""
    text = own_words(prompt, lambda line: _begins(REMINDER, line) or _begins(HENCE, line))
    split = re.split(SENTENCE, text, flags=re.IGNORECASE)
    if len(split) > MOST_SENTENCES:
        split = split[: MOST_SENTENCES // 2] + split[-MOST_SENTENCES // 2 :]
    said = (re.sub(rf"\A\s*{LEAD}", "", one, count=1, flags=re.IGNORECASE).strip() for one in split)
    return [one for one in said if len(one) > 1]


def stems_of(text: str) -> set[str]:
    """The beginnings of the words by which a rule fits a prompt; pairs of characters where a language has no spaces."""
    words = set(re.findall(WORD, re.sub(CJK, " ", text.lower()))) - BARE_WORDS
    pairs = {run[i : i + 2] for run in re.findall(CJK, text) for i in range(max(1, len(run) - 1))}
    return {word[:STEM] for word in words | pairs}


def rule_key(project: str) -> str:
    """The beginning of the keys of a project's rules; the project may be too long for a key."""
    from hashlib import sha256

    return f"rule/{sha256(project.encode()).hexdigest()[:32]}"
