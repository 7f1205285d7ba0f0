"""The signs in German, French, Spanish and Chinese, and what they say in English.

They give the slots of the English signs, so each replaces the other's. The sentence of the fact is English, with the words of
the message beside it, by which a question in its language finds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from memory.facts.dates import MONTHS
from memory.facts.draft import NAME, Draft, Sign
from memory.facts.sentences import SARCASM, spoken
from memory.facts.wording import normalised

_UNSURE = re.compile(
    r"\b(?:vielleicht|wenn|falls|ob|w\u00fcrde|w\u00e4re|k\u00f6nnte|h\u00e4tte|nehmen wir an|angenommen|stell dir vor|fast"
    r"|beinahe|peut-\u00eatre|si|aimerais|voudrais|pourrais|imagine[zr]?|presque|quiz\u00e1s?|tal vez|ojal\u00e1|quisiera|me"
    r" gustar\u00eda|imagina|casi|dice|sagte|dit|dijo|sagt|otra reuni\u00f3n)\b|\u5982\u679c|\u4e5f\u8bb8|\u53ef\u80fd"
    r"|\u5047\u5982|\u8981\u662f|\u5dee\u70b9|\u4ed6\u8bf4|\u5979\u8bf4",
    re.IGNORECASE,
)
_NO_LONGER = re.compile(
    r"\b(?:nicht mehr|keine?n? .{0,40}mehr|ne .{0,30} plus|n'.{0,30} plus|ya no)\b|\u4e0d\u518d",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"^(?:(?:hallo|hi|hey|guten (?:tag|morgen|abend)|also|\u00fcbrigens|(?:ja|nein|oui|non|no)(?=[,.!])|und|aber|danke|ok"
    r"|okay|bonjour|salut|bonsoir|au fait|alors|merci|et|mais|hola|ahora|jetzt|maintenant|bueno|oh|ay|ah|stimmt|buenas|buenos"
    r" d\u00edas|por cierto|s\u00ed|pues|oye|gracias|y|pero)(?![\w'\u2019])[\s,!.]*)+",
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
    r"(?:es|c\u00f3mo .*|das|dies\w*|dich|ihn|sie|ihr|euch|dass|wie|was|\u00e7a|cela|te|le|que|quand|comment|bien que|eso"
    r"|esto|cuando|lo|la|\u4f60|\u4ed6|\u5979|\u5b83|\u8fd9\w*|\u90a3\w*)$",
    re.IGNORECASE,
)
_NOW_LAST = re.compile(r" (?:jetzt|nun|inzwischen|maintenant|ahora)$", re.IGNORECASE)
_SUBJECTLESS = re.compile(r"(?:wohne|lebe|arbeite|mag|liebe|hasse)\b", re.IGNORECASE)
_MOST_WORDS = 4


def elsewhere(text: str) -> Iterator[tuple[Draft, str]]:
    """The facts of a message in one of these languages, each with the words that say it."""
    for sentence in spoken(text):
        if "\x00" in sentence or re.search(r"[?\uff1f\u00bf\u5417]", sentence) or _UNSURE.search(sentence):
            continue
        if SARCASM.match(sentence):
            continue
        speaks = False
        for pattern, build in _WHOLE:
            if match := pattern.search(sentence):
                yield from ((draft, sentence.strip(" .!")) for draft in build(match))
        for part in _PARTS.split(_FILLER.sub("", sentence.strip())):
            clause = _NOW_LAST.sub("", _FILLER.sub("", part.strip(" \t,.!")))
            if speaks and _SUBJECTLESS.match(clause):
                clause = f"ich {clause}"
            speaks = speaks or clause.lower().startswith(("ich ", "mein name"))
            if not _NO_LONGER.search(clause) or _ABSTAINS.match(clause):
                yield from _read(clause)
            elif ended := _OVER.search(_NEGATED.sub("", clause)):
                what = ended["v"]
                draft = Draft(f"ended:{normalised(what)}", what, "I no longer do this", past=True, over=what)
                yield draft, clause


def _read(clause: str) -> Iterator[tuple[Draft, str]]:
    for rule in _RULES:
        match = rule.pattern.fullmatch(clause)
        drafts = rule.build(match) if match is not None else ()
        if drafts:
            # Of where one works and as what, each has its own words: one may change without the other.
            yield from (
                (draft, clause[: match.end("v")] if match and draft.slot == "job" else clause)
                for draft in drafts
            )
            return


def _value(match: re.Match[str]) -> str:
    value = _VALUE_ENDS.sub("", match["v"]).strip()
    return "" if _NO_VALUE.match(value) or len(value.split()) > _MOST_WORDS else value


def _says(slot: str, clause: str, *, value: str = "{}", many: bool = False) -> Callable[..., Sequence[Draft]]:
    """A fact whose value is the group `v`; `clause` and `value` have it in place of the braces."""

    def build(match: re.Match[str]) -> Sequence[Draft]:
        said = _value(match)
        if not said or not normalised(said):
            return ()
        return (
            Draft(
                f"{slot}:{normalised(said)}" if many else slot,
                value.format(said),
                clause.format(said),
                0.8,
                preference=slot == "taste",
            ),
        )

    return build


def _relative(match: re.Match[str]) -> Sequence[Draft]:
    """ "Mi marido se llama \u00c1lvaro", "wir haben einen Hund, er hei\u00dft Balu"."""
    who = next(who for who, words in _KIN_WORDS.items() if re.fullmatch(words, match["who"], re.IGNORECASE))
    said = match.groupdict()
    if "has" not in said:
        return (Draft(f"person:{who}: name", match["v"], f"my {who}'s name is {match['v']}"),)
    name = f", {said['v']}" if said.get("v") else ""
    return (Draft(f"have:{who}", f"a {who}{name}", f"I have a {who}{name}"),)


def _job_and_place(match: re.Match[str]) -> Sequence[Draft]:
    job = Draft("job", match["v"], f"I work as {match['v']}")
    return (job, Draft("employer", match["at"], f"I work at {match['at']}"))


_MONTHS = (
    "januar|janvier|enero", "februar|f\u00e9vrier|febrero", "m\u00e4rz|mars|marzo", "april|avril|abril",
    "mai|mayo", "juni|juin|junio",
    "juli|juillet|julio", "august|ao\u00fbt|agosto", "september|septembre|septiembre", "oktober|octobre|octubre",
    "november|novembre|noviembre", "dezember|d\u00e9cembre|diciembre",
)  # fmt: skip
_DATE = rf"(?P<day>\d{{1,2}})\.? ?(?:de )?(?:(?P<month>{'|'.join(_MONTHS)})\b)?"


def _dated(match: re.Match[str]) -> str:
    if not match["month"]:
        return f"the {match['day']}th"
    month = next(n for n, names in enumerate(_MONTHS) if re.fullmatch(names, match["month"], re.IGNORECASE))
    return f"{match['day']} {MONTHS[month].title()}"


def _gone(match: re.Match[str]) -> Sequence[Draft]:
    name = match["v"]
    return (
        Draft(f"person:{normalised(name)}: died", name, f"{name} died", past=True, needs=name, over=name),
    )


def _on(slot: str, clause: str) -> Callable[..., Sequence[Draft]]:
    """Something with a day: the group `v` and the day stand in the slot and the clause. No slot: a correction."""

    def build(match: re.Match[str]) -> Sequence[Draft]:
        what, day = match.groupdict().get("v") or "", _dated(match)
        topic = None if slot in ("", "birthday") else normalised(slot.format(what))
        said = clause.format(what, day)
        return (Draft(f"plan:{topic}" if topic else slot, said, said, topic=topic, corrects=not slot),)

    return build


_PLACE = rf"(?P<v>{NAME}(?:[ ,].*)?)"
_ANY = r"(?P<v>\S.*)"
_NUMBER = r"(?P<v>[89]|[1-9]\d|10\d)"
_ARTICLE = r"(?:la |les? |l['\u2019]|el |los |las |de la |du |des |de[nr] |die |das |meine? |al |aux? |à la |à l['\u2019])?"
_NOW = r"(?:jetzt |nun |derzeit |leider |übrigens |auch |seit .{1,20} |maintenant |ahora )*"
_KIN_WORDS = {
    "wife": r"frau|femme|esposa|mujer|妻子|老婆",
    "husband": r"mann|mari|marido|esposo|丈夫|老公",
    "daughter": r"tochter|fille|hija|女儿",
    "son": r"sohn|fils|hijo|儿子",
    "mother": r"mutter|mère|madre|mamá|妈妈",
    "father": r"vater|père|padre|papá|爸爸",
    "sister": r"schwester|sœur|soeur|hermana|姐姐|妹妹",
    "brother": r"bruder|frère|hermano|哥哥|弟弟",
    "dog": r"hund|hündin|chien|chienne|perr[oa]|狗",
    "cat": r"katze|kater|chat|chatte|gat[oa]|猫",
    "friend": r"freund|freundin|ami|amie|amig[oa]|novi[oa]|朋友",
    "boss": r"chef|chefin|jef[ea]|老板",
}
_WHO = rf"(?P<who>{'|'.join(_KIN_WORDS.values())})"
_JOB_DE = (
    r"\w+(?:lehrer|pfleger|schwester|arzt|ärztin|mann|frau|ist|istin|ent|entin|loge|login|ker|kerin|erin|eur|eurin|wirt"
    r"|wirtin)|schreiner|maler|koch|köchin|bäcker|maurer|lehrer|arzt"
)
_JOB_FR = r"[a-zé]+(?:eur|euse|rice|ien|ienne|iste|ier|ière|cin|ecte)"
_JOB_ES = r"[a-zé]+(?:ero|era|or|ora|ista|ante|ogo|oga|ico|ica|ado|ada|tra|tro|ecto|ecta)"
_NO_JOB = (
    r"premier|première|dernier|dernière|fier|fière|bien|rien|mor|menor|mayor|peor|mejor|listo|único|única|soltero|soltera"
    r"|vegetarier\w*|veganer\w*|pescetarier\w*|sincer[oa]|primer[oa]|verdader[oa]|otr[oa]|nuestr[oa]|casad[oa]|cansad[oa]"
    r"|enfadad[oa]|preocupad[oa]|simpátic[oa]|fanátic[oa]|típic[oa]|alérgic[oa]|católic[oa]|asmátic[oa]|diabétic[oa]"
    r"|celíac[oa]|optimista|pesimista|realista|zurd[oa]|\w*präsident|\w*optimist\w*|\w*pessimist\w*|tout seul|parisien"
    r"|parisienne|canadien|canadienne|italien|italienne|végétarien|végétarienne|intérieur|meilleur|seguidor\w*"
)
_AGE = _says("age", "I am {} years old")
_VEGAN = _says("diet", "my diet is vegan", value="vegan")
_VEGETARIAN = _says("diet", "my diet is vegetarian", value="vegetarian")
_NAMED = _says("name", "my name is {}")
_LIVES = _says("home", "I live in {}")
_WORKS = _says("employer", "I work at {}")
_JOB = _says("job", "I work as {}")
_ALLERGIC = _says("allergy", "I am allergic to {}", many=True)
_LIKES = _says("taste", "I like {}", many=True)
_DISLIKES = _says("taste", "I dislike {}", value="not {}", many=True)
_ILL = _says("health", "I have the condition {}", many=True)
_NOT_EATEN = _says("food", "I do not eat or drink {}", value="not", many=True)
_LEARNS = _says("learning", "I am learning {}", many=True)
_COLOUR = _says("favourite:color", "my favourite colour is {}")
_STUDIES = _says("study", "I study {}")

_PATTERNS: tuple[tuple[str, Callable[..., Sequence[Draft]]], ...] = (
    ((rf"(?:ich heiße {_NOW}|mein name ist|je m['\u2019]appelle|mon nom est|me llamo|mi nombre es) ?(?P<v>{NAME})(?:"
        rf" .*)?"), _NAMED),
    (rf"ich bin (?:der|die) (?P<v>{NAME})", _NAMED),
    (rf"(?:yo )?soy (?P<v>{NAME})", _NAMED),
    (rf"je suis (?P<v>{NAME})", _NAMED),
    (rf"(?:ich (?:wohne|lebe)|wir (?:wohnen|leben)) {_NOW}in (?:der |den )?{_PLACE}", _LIVES),
    (rf"(?:ich|wir) (?:bin|sind) (?:\w+ ){{0,3}}?nach (?P<v>{NAME}) (?:um)?gezogen", _LIVES),
    ((rf"(?:j['\u2019]habite|nous habitons|je vis|j['\u2019]ai déménagé|nous avons déménagé|on a déménagé) {_NOW}(?:à|en|au"
        rf"|aux) {_PLACE}"), _LIVES),
    (rf"(?:yo )?{_NOW}(?:vivo|vivimos|me mudé|nos mudamos|me he mudado|nos hemos mudado) {_NOW}(?:en|a) {_PLACE}", _LIVES),
    (rf"ich arbeite {_NOW}(?:bei|für) (?:der |dem |den )?{_PLACE}", _WORKS),
    (rf"je travaille {_NOW}(?:chez|pour) {_PLACE}", _WORKS),
    (rf"(?:yo )?{_NOW}trabajo (?:como|de) (?P<v>\w+) {_NOW}(?:en|para) (?P<at>.+)", _job_and_place),
    (rf"ich arbeite {_NOW}als (?P<v>\w+) (?:bei|in|an) (?:der |dem )?(?P<at>[A-ZÄÖÜ].+)", _job_and_place),
    (rf"(?:yo )?{_NOW}trabajo {_NOW}(?:en|para) (?!casa|equipo|ello|eso|esto)(?P<v>.+)", _WORKS),
    (rf"ich arbeite {_NOW}als {_ANY}", _JOB),
    (rf"je travaille {_NOW}comme {_ANY}", _JOB),
    (rf"(?:yo )?{_NOW}trabajo (?:como|de) {_ANY}", _JOB),
    (rf"ich bin {_NOW}(?:eine? |von beruf )?(?!(?:{_NO_JOB})(?:$| ))(?P<v>{_JOB_DE})(?: (?:in|bei|an|am) .+)?", _JOB),
    (rf"je suis {_NOW}(?:une? )?(?!(?:{_NO_JOB})(?:$| ))(?P<v>{_JOB_FR})", _JOB),
    (rf"(?:yo )?soy {_NOW}(?:una? )?(?!(?:{_NO_JOB})(?:$| ))(?P<v>{_JOB_ES})", _JOB),
    (rf"(?:ich studiere|estudio|j['\u2019]étudie) {_NOW}{_ARTICLE}{_ANY}", _STUDIES),
    (rf"ich bin (?:\w+ )?allergisch (?:gegen|auf) {_ARTICLE}{_ANY}", _ALLERGIC),
    (rf"ich bin (?:\w+ )?(?:gegen|auf) {_ARTICLE}(?P<v>.+?) (?:\w+ )?allergisch", _ALLERGIC),
    (r"ich habe eine (?P<v>\w+?)s?allergie", _ALLERGIC),
    (rf"je suis (?:\w+ )?allergique (?:à|au|aux) {_ARTICLE}{_ANY}", _ALLERGIC),
    (rf"(?:yo )?soy (?:\w+ )?alérgic[oa] (?:al?) {_ARTICLE}{_ANY}", _ALLERGIC),
    ((r"(?:yo )?(?:soy|estoy) (?P<v>celíac[oa]|diabétic[oa]|asmátic[oa]|epiléptic[oa]|embarazada|intolerante a la"
        r" \w+)"), _ILL),
    (r"je suis (?P<v>cœliaque|diabétique|asthmatique|épileptique|enceinte|intolérante? au \w+)", _ILL),
    ((rf"ich (?:bin|habe) {_NOW}(?P<v>zuckerkrank|diabetiker(?:in)?|schwanger|laktoseintolerant|asthma(?:tiker(?:in)?)?"
        rf"|zöliakie|diabetes|migräne)"), _ILL),
    (r"(?:yo )?tengo (?P<v>diabetes|asma|migrañas?|hipertensión|epilepsia)", _ILL),
    ((rf"(?:no puedo (?:comer|tomar|beber)|ya no (?:como|bebo|tomo|fumo)|no (?:como|bebo)) (?!nada|más|mucho|eso"
        rf"|esto){_ARTICLE}{_ANY}"), _NOT_EATEN),
    (r"ich (?:esse|trinke|vertrage) (?:\w+ )?keine?n? (?P<v>\w+)(?: mehr)?", _NOT_EATEN),
    (r"je ne (?:mange|bois) (?:pas|plus) (?:de |d['\u2019])(?P<v>\w+)", _NOT_EATEN),
    (rf"ich bin {_NUMBER}(?: jahre alt)?", _AGE), (rf"j['\u2019]ai {_NUMBER} ans", _AGE), (rf"tengo {_NUMBER} años", _AGE),
    (rf"(?:ich bin|je suis|(?:yo )?soy) {_NOW}(?P<v>vegan\w*|v\u00e9gane?)", _VEGAN),
    (rf"(?:ich bin|je suis|(?:yo )?soy) {_NOW}(?P<v>vegetari\w+|v\u00e9g\u00e9tarien\w*)(?: depuis .*)?", _VEGETARIAN),
    (rf"ich lerne {_NOW}(?P<v>[A-ZÄÖÜ]\w+)(?: seit .*)?", _LEARNS), (rf"j['\u2019]apprends {_ARTICLE}{_ANY}", _LEARNS),
    (rf"(?:aprendo|estoy aprendiendo) {_ANY}", _LEARNS),
    (rf"(?:meine lieblingsfarbe ist|ma couleur préférée est|mi color (?:favorito|preferido) es) {_ARTICLE}{_ANY}", _COLOUR),
    ((rf"(?:ich komme (?:urspr\u00fcnglich )?aus|je viens de|(?:yo )?soy de) (?:der"
        rf" )?(?P<v>{NAME})"), _says("origin", "I am from {}")),
    ((r"(?:ich habe|wir haben|j['\u2019]ai|nous avons|tengo|tenemos) (?P<v>\w{2,6}) (?:kinder|enfants"
        r"|hij[oa]s)"), _says("have:kid", "I have {} children")),
    ((r"(?:j['\u2019]ai arr\u00eat\u00e9 de|he dejado de|ich habe aufgeh\u00f6rt zu)"
        r" (?P<v>\w+)"), _says("food", "I stopped {}", value="not", many=True)),
    ((r"(?:me he comprado|hemos comprado|j['\u2019]ai achet\u00e9|nous avons achet\u00e9|ich habe mir|wir haben uns)"
        r" (?P<v>(?:une?|una|eine?n?) .+?)(?: gekauft)?"),
     _says("own", "I bought {}", many=True)),
    (rf"(?:mein geburtstag ist am|mon anniversaire est le|mi cumplea\u00f1os es el) {_DATE}", _on("birthday", "my birthday is"
        " {}{}")),
    (rf"ich (?:mag|liebe) (?!kein|nicht|dich|es\b){_ARTICLE}{_ANY}", _LIKES),
    (rf"ich (?:mag keine?n?|hasse) {_ARTICLE}{_ANY}", _DISLIKES),
    (rf"(?:j['\u2019]aime (?:beaucoup |bien )?|j['\u2019]adore ){_ARTICLE}{_ANY}", _LIKES),
    (rf"(?:je déteste |je n['\u2019]aime pas ){_ARTICLE}{_ANY}", _DISLIKES),
    (rf"me (?:gustan?|encantan?) (?:mucho )?{_ARTICLE}{_ANY}", _LIKES),
    (rf"(?:no me gustan?|odio) (?:nada )?{_ARTICLE}{_ANY}", _DISLIKES),
    ("我(?:叫|的名字(?:是|叫))(?P<v>\\w{1,6})", _NAMED),
    ("我们?(?:现在)?(?:住在|搬到了?|搬去了?)(?P<v>\\w{2,8}?)了?", _LIVES),
    ("我(?:现在)?在(?P<v>\\w{2,12}?)(?:工作|上班)了?", _WORKS),
    ("我是(?:一名|一个|个)?(?P<v>\\w{0,6}(?:师|医生|护士|程序员|工程师|司机|律师|学生|经理|会计|厨师|警察))", _JOB),
    ("我对(?P<v>\\w{1,8}?)(?:严重)?过敏", _ALLERGIC),
    ("我(?:今年)?(?P<v>[89]|[1-9]\\d)岁了?", _AGE),
    ("我是(?P<v>纯素食(?:主义)?者)", _VEGAN),
    ("我是(?P<v>素食(?:主义)?者)", _VEGETARIAN),
    ("我最喜欢的颜色是(?P<v>\\w{1,6})", _COLOUR),
    ("我来自(?P<v>\\w{2,6})", _says("origin", "I am from {}")),
    ("我(?:有|们有)(?P<v>[一二两三四五\\d]+)个孩子", _says("have:kid", "I have {} children")),
    ("我的生日是(?P<v>\\d{1,2}月\\d{1,2}[日号])", _says("birthday", "my birthday is {}")),
    ("我(?:养|有)了?一[只条](?P<v>猫|狗|鸟|兔子)", _says("have", "I have an animal, {}", many=True)),
    ("我在(?P<v>\\w{2,10})(?:读书|上学|读博)", _says("study", "I study at {}")),
    ("我(?:正)?在学(?P<v>\\w{1,6})", _LEARNS),
    ("我不(?:吃|喝|能吃|能喝)(?P<v>\\w{1,6}?)了?", _NOT_EATEN),
    ("我(?:很|非常|最|特别)?喜欢(?!你|他|她|它|这|那)(?P<v>\\w{1,8})", _LIKES),
    ("我(?:讨厌|不喜欢)(?!你|他|她|它|这|那)(?P<v>\\w{1,8})", _DISLIKES),
)  # fmt: skip
_RULES = tuple(Sign(re.compile(pattern, re.IGNORECASE), build) for pattern, build in _PATTERNS)
_ABSTAINS = re.compile(
    r"(?:ya no (?:como|bebo|tomo|fumo)|ich (?:esse|trinke|rauche)|je ne (?:mange|bois))\b", re.IGNORECASE
)
_NEGATED = re.compile(
    r"\b(?:nicht mehr|ya no|ne|plus|mehr|keine?n?)(?: |$)|\bn['\u2019]|不再|了$", re.IGNORECASE
)
_OVER = re.compile(
    r"(?:\b(?:in|bei|für|en|à|chez|pour|para|a|mag|liebe|aime|gusta|bin|soy|suis)\b|我(?:在|喜欢|是)) ?(?:der |dem |el |la |le"
    r" )?(?P<v>\S.*?)(?:工作|上班)?$",
    re.IGNORECASE,
)
_POSSESSIVE = r"\b(?:meine?|unsere?|ma|mon|notre|mi|nuestr[oa]|我的?)\s?"
_A = r"\b(?:habe?n?|ai|avons|tengo|tenemos|he adoptado|hemos adoptado|adopté)\b (?:\w+ )?(?:eine?n?|une?|una?) "
_CALLED = r"(?:,? ?(?:(?:er|sie|il|elle) )?(?:heißt|s['\u2019]appelle|se llama|叫|namens|llamad[oa]))"
_WHOLE = tuple(
    (re.compile(pattern, re.IGNORECASE), build)
    for pattern, build in (
        (rf"(?P<v>{NAME}) (?:se muri\u00f3|ha muerto|muri\u00f3|ist (?:\w+ )?gestorben|est morte?)\b", _gone),
        (rf"{_POSSESSIVE}{_WHO},?{_CALLED} ?(?P<v>{NAME}|[\u4e00-\u9fff]{{1,4}})", _relative),
        (rf"(?P<has>{_A}){_WHO}(?:{_CALLED}|,) ?(?P<v>{NAME})", _relative),
        (rf"(?P<has>{_A}){_WHO}(?=[.!]?$)", _relative),
        ((rf"(?:el |am |le )?{_DATE} (?:viajo|voy|volamos|viajamos|fliege ich|fahre ich|fliegen wir|je vais|je pars) (?:a"
            rf"|nach|à) (?P<v>{NAME})"), _on("{} trip", "I am going to {} on {}")),
        ((rf"(?:viajo|voy|viajamos|fliege|fahre|fliegen|fahren|je vais|je pars) (?:a|nach|à) (?P<v>{NAME}) (?:el|am|le)"
            rf" {_DATE}"), _on("{} trip", "I am going to {} on {}")),
        ((rf"\b(?:ich|wir) (?:fliege|fahre|fliegen|fahren|reise|reisen) am {_DATE} nach"
            rf" (?P<v>{NAME})"), _on("{} trip", "I am going to {} on {}")),
        ((rf"(?:mein|meine|mon|ma|mi|la|der|die|le|el) (?P<v>termin|prüfung|treffen|cita|examen|reunión|rendez-vous|réunion"
            rf"|vol|vuelo|flug|geburtstag|hochzeit|boda)(?: [\w ]{{2,30}}?)? (?:ist|es|est) (?:jetzt |ahora |maintenant"
            rf" )?(?:el|am|le) {_DATE}"), _on("{}", "my {} is on {}")),
        ((rf"(?:quería decir|quise decir|digo|ich meinte|ich meine|je voulais dire|es ist jetzt|es ahora) (?:el|am|den|le)?"
            rf" ?{_DATE}"), _on("", "{}{}")),
    )
)  # fmt: skip
