"""Rules for the most common statements in German, French, Spanish and Chinese: name, age, home, work, allergies, diet, tastes.

They give the slots of the English rules, so each replaces the other's. The sentence of the fact is English, with the words of
the message beside it, by which a question in its language finds it. Plans and their dates are not read in these languages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from memory.facts.draft import NAME, Draft, Rule
from memory.facts.sentences import spoken
from memory.facts.wording import normalised

_UNSURE = re.compile(
    r"\b(?:vielleicht|wenn|falls|ob|w\u00fcrde|w\u00e4re|k\u00f6nnte|h\u00e4tte|nehmen wir an|angenommen|stell dir vor"
    r"|peut-\u00eatre|si|aimerais|voudrais|pourrais|imagine[zr]?|quiz\u00e1s?|tal vez|ojal\u00e1|quisiera|me gustar\u00eda"
    r"|imagina|dice|sagte|dit"
    r"|dijo|sagt|nicht mehr|ne .{0,30} plus|ya no)\b|\u5982\u679c|\u4e5f\u8bb8|\u53ef\u80fd|\u5047\u5982|\u8981\u662f",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"^(?:(?:hallo|hi|hey|guten (?:tag|morgen|abend)|also|\u00fcbrigens|(?:ja|nein|oui|non|no)(?=[,.!])|und|aber|danke|ok"
    r"|okay|bonjour|salut|bonsoir"
    r"|au fait|alors|merci|et|mais|hola|buenas|buenos d\u00edas|por cierto|s\u00ed|pues|oye|gracias|y|pero"
    r")(?![\w'\u2019])[\s,!.]*)+",
    re.IGNORECASE,
)
# A statement ends where another begins.
_PARTS = re.compile(
    r"[,;:.!\u3002\uff0c\uff01\uff1b]\s*|\s+(?:und|aber|weil|denn|et|mais|car|parce|y|e|pero|porque)\s+(?=\S)"
)
_VALUE_ENDS = re.compile(
    r"\s+(?:seit|mit|jetzt|schon|derzeit|gerade|depuis|avec|maintenant|desde|con|ahora|hace|sehr|wirklich|beaucoup|mucho"
    r"|\u4e86)\b.*$",
    re.IGNORECASE,
)
_NO_VALUE = re.compile(
    r"(?:es|das|dies\w*|dich|ihn|sie|ihr|euch|dass|wie|was|\u00e7a|cela|te|le|que|quand|comment|bien que|eso|esto|cuando|lo|la"
    r"|\u4f60|\u4ed6|\u5979|\u5b83|\u8fd9\w*|\u90a3\w*)$",
    re.IGNORECASE,
)
_SUBJECTLESS = re.compile(r"(?:wohne|lebe|arbeite|mag|liebe|hasse)\b", re.IGNORECASE)
_MOST_WORDS = 4


def elsewhere(text: str) -> Iterator[tuple[Draft, str]]:
    """The facts of a message in one of these languages, each with the words that say it."""
    for sentence in spoken(text):
        if "\x00" in sentence or re.search(r"[?\uff1f\u00bf\u5417]", sentence) or _UNSURE.search(sentence):
            continue
        speaks = False
        for part in _PARTS.split(_FILLER.sub("", sentence.strip())):
            clause = _FILLER.sub("", part.strip(" \t,.!"))
            if speaks and _SUBJECTLESS.match(clause):
                clause = f"ich {clause}"
            speaks = speaks or clause.lower().startswith(("ich ", "mein name"))
            for rule in _RULES:
                match = rule.pattern.fullmatch(clause)
                if match is not None:
                    yield from ((draft, clause) for draft in rule.build(match))
                    break


def _value(match: re.Match[str]) -> str:
    value = _VALUE_ENDS.sub("", match["v"]).strip()
    return "" if _NO_VALUE.match(value) or len(value.split()) > _MOST_WORDS else value


def _says(
    rule: str, slot: str, clause: str, *, value: str = "{}", many: bool = False
) -> Callable[..., Sequence[Draft]]:
    """A fact whose value is the group `v`; `clause` and `value` have it in place of the braces."""

    def build(match: re.Match[str]) -> Sequence[Draft]:
        said = _value(match)
        if not said or not normalised(said):
            return ()
        return (
            Draft(
                rule,
                f"{slot}:{normalised(said)}" if many else slot,
                value.format(said),
                clause.format(said),
                0.8,
                preference=slot == "taste",
            ),
        )

    return build


def _diet(match: re.Match[str]) -> Sequence[Draft]:
    diet = (
        "vegan"
        if match["v"].lower().startswith(("vega", "v\u00e9ga", "\u7eaf\u7d20"))
        and "veget" not in match["v"].lower()
        else ""
    )
    diet = diet or "vegetarian"
    return (Draft("diet", "diet", diet, f"my diet is {diet}", 0.8),)


def _age(match: re.Match[str]) -> Sequence[Draft]:
    return (
        (Draft("age", "age", match["v"], f"I am {match['v']} years old"),)
        if 8 <= int(match["v"]) <= 110
        else ()
    )


_PLACE = rf"(?P<v>{NAME}(?:[ ,].*)?)"
_ANY = r"(?P<v>\S.*)"
_NUMBER = r"(?P<v>\d{1,3})"
_ARTICLE = r"(?:la |le |les |l['\u2019]|el |los |las |de la |du |des |den |die |das |der |meine? )?"
_NAMED = _says("name", "name", "my name is {}")
_LIVES = _says("home", "home", "I live in {}")
_WORKS = _says("work", "employer", "I work at {}")
_JOB = _says("job", "job", "I work as {}")
_ALLERGIC = _says("allergy", "allergy", "I am allergic to {}", many=True)
_LIKES = _says("taste", "taste", "I like {}", many=True)
_DISLIKES = _says("taste", "taste", "I dislike {}", value="not {}", many=True)

_PATTERNS: tuple[tuple[str, Callable[..., Sequence[Draft]]], ...] = (
    (rf"(?:ich hei\u00dfe|mein name ist|je m['\u2019]appelle|mon nom est|me llamo|mi nombre es) (?P<v>{NAME})",
     _NAMED),
    (rf"ich (?:wohne|lebe) (?:jetzt |nun |derzeit |seit .{{1,20}} )?in (?:der |den )?{_PLACE}", _LIVES),
    (rf"ich bin (?:\w+ ){{0,3}}nach (?P<v>{NAME}) (?:um)?gezogen", _LIVES),
    (rf"(?:j['\u2019]habite|je vis|j['\u2019]ai d\u00e9m\u00e9nag\u00e9) (?:\u00e0|en|au|aux) {_PLACE}", _LIVES),
    (rf"(?:yo )?(?:ahora )?(?:vivo|me mud\u00e9|me he mudado) (?:ahora )?(?:en|a) {_PLACE}", _LIVES),
    (rf"ich arbeite (?:jetzt |seit .{{1,20}} )?(?:bei|f\u00fcr) (?:der |dem )?{_PLACE}", _WORKS),
    (rf"je travaille (?:maintenant )?(?:chez|pour) {_PLACE}", _WORKS),
    (rf"(?:yo )?trabajo (?:ahora )?(?:en|para) {_PLACE}", _WORKS),
    (rf"ich arbeite (?:jetzt )?als {_ANY}", _JOB),
    (rf"je travaille comme {_ANY}", _JOB),
    (rf"(?:yo )?trabajo (?:como|de) {_ANY}", _JOB),
    (rf"ich bin (?:\w+ )?allergisch (?:gegen|auf) {_ARTICLE}{_ANY}", _ALLERGIC),
    (rf"je suis (?:\w+ )?allergique (?:\u00e0|au|aux) {_ARTICLE}{_ANY}", _ALLERGIC),
    (rf"(?:yo )?soy (?:\w+ )?al\u00e9rgic[oa] (?:al?) {_ARTICLE}{_ANY}", _ALLERGIC),
    (rf"ich bin {_NUMBER} jahre alt", _age),
    (rf"j['\u2019]ai {_NUMBER} ans", _age),
    (rf"tengo {_NUMBER} a\u00f1os", _age),
    (r"ich bin (?P<v>vegan(?:er(?:in)?)?|vegetari(?:er(?:in)?|sch))", _diet),
    (r"je suis (?P<v>v\u00e9g[ae]ne?|vegan|v\u00e9g\u00e9tarien(?:ne)?)", _diet),
    (r"(?:yo )?soy (?P<v>vegan[oa]|vegetarian[oa])", _diet),
    (rf"ich (?:mag|liebe) (?!kein|nicht|dich|es\b){_ARTICLE}{_ANY}", _LIKES),
    (rf"ich (?:mag keine?n?|hasse) {_ARTICLE}{_ANY}", _DISLIKES),
    (rf"(?:j['\u2019]aime (?:beaucoup |bien )?|j['\u2019]adore ){_ARTICLE}{_ANY}", _LIKES),
    (rf"(?:je d\u00e9teste |je n['\u2019]aime pas ){_ARTICLE}{_ANY}", _DISLIKES),
    (rf"me (?:gustan?|encantan?) (?:mucho )?{_ARTICLE}{_ANY}", _LIKES),
    (rf"(?:no me gustan?|odio) (?:nada )?{_ARTICLE}{_ANY}", _DISLIKES),
    ("\u6211(?:\u53eb|\u7684\u540d\u5b57(?:\u662f|\u53eb))(?P<v>\\w{1,6})", _NAMED),
    ("\u6211(?:\u73b0\u5728)?(?:\u4f4f\u5728|\u642c\u5230\u4e86?|\u642c\u53bb\u4e86?)(?P<v>\\w{2,8})", _LIVES),
    ("\u6211(?:\u73b0\u5728)?\u5728(?P<v>\\w{2,12}?)(?:\u5de5\u4f5c|\u4e0a\u73ed)", _WORKS),
    ("\u6211\u5bf9(?P<v>\\w{1,8}?)(?:\u4e25\u91cd)?\u8fc7\u654f", _ALLERGIC),
    ("\u6211(?:\u4eca\u5e74)?(?P<v>\\d{1,3})\u5c81\u4e86?", _age),
    ("\u6211\u662f(?P<v>\u7d20\u98df(?:\u4e3b\u4e49)?\u8005|\u7eaf\u7d20\u98df(?:\u4e3b\u4e49)?\u8005)", _diet),
    ("\u6211(?:\u5f88|\u975e\u5e38|\u6700|\u7279\u522b)?\u559c\u6b22(?P<v>\\w{1,8})", _LIKES),
    ("\u6211(?:\u8ba8\u538c|\u4e0d\u559c\u6b22)(?P<v>\\w{1,8})", _DISLIKES),
)  # fmt: skip
_RULES = tuple(Rule(re.compile(pattern, re.IGNORECASE), build) for pattern, build in _PATTERNS)
