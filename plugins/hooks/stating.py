"""How much a sentence reads like a standing rule: "we're on kotest here" does, "we're on page 3 now" does not.

The sum of learned weights over the sentence's words, their order, their endings and their senses in five languages. The weights
are those of `python -m benchmarks.talk.rules --write`; whoever changes what is seen here writes them again.
"""

# ruff: noqa: RUF001 - Chinese has its own punctuation

from __future__ import annotations

import os
import re
import struct
import zlib

WEIGHTS = os.path.join(os.path.dirname(__file__), "stating.bin")
"""Two floats, what one weight is worth and what a sentence begins with, then BUCKETS signed bytes."""
BUCKETS = 1 << 16
HEADER = struct.Struct("<ff")
MOST_WORDS = 80
LONGEST_PHRASE = 4
PATH = r"\w(?:[/.\\_@:=]|::|-)\w|\A`.+`\Z"
WORD = r"[\u3040-\u30ff\u4e00-\u9fff]|[^\W\d_]+(?:['’][^\W\d_]+)?|\d+|[^\w\s]|_+"
PLAIN_WORD = WORD.partition("|")[2]
"""WORD where no sign of Chinese or Japanese is: to compile these takes longer than the rest."""
MARKS = frozenset(",:!().;-=，：。！")
SENSES = {
    "ALWAYS": "always|immer|stets|grundsätzlich|siempre|toujours|总 是|始 终|一 律|统 一|永 远",
    "NEVER": "never|nie|niemals|nunca|jamás|jamais|永 远 不|绝 不|千 万 别|千 万 不",
    "HENCE": "from now on|from here on|going forward|in future|in the future|for the future|ab jetzt"
    "|ab sofort|ab heute|von nun an|künftig|zukünftig|in zukunft|a partir de ahora|de ahora en adelante"
    "|desde ahora|en adelante|désormais|dorénavant|à partir de maintenant|à l'avenir|以 后|今 后|从 现 在|往 后",
    "REMEMBER": "remember|keep in mind|note that|note|don't forget|dont forget|do not forget"
    "|for future reference|for reference|fyi|as a rule|merk dir|merke dir|denk daran|denk dran|beachte"
    "|vergiss nicht|recuerda|acuérdate|ten en cuenta|apunta|anota|no olvides|retiens|souviens|rappelle"
    "|garde en tête|n'oublie pas|记 住|记 得|注 意",
    "WE": "we|we're|we've|us|team|wir|uns|nosotros|on|nous|我 们|咱 们",
    "OUR": "our|unser|unsere|unserem|unseren|unserer|nuestro|nuestra|nuestros|nuestras|notre|nos|我 们 的",
    "HERE": "here|around here|over here|in this repo|in this repository|in this project|in this codebase"
    "|for this project|in our repo|in our project|hier|bei uns|in diesem repo|in diesem projekt|aquí"
    "|en este proyecto|en este repo|ici|chez nous|dans ce projet|dans ce repo|dans ce dépôt|这 里|这 个 项 目"
    "|本 项 目|项 目 里|这 个 仓 库|仓 库 里",
    "NOW": "now|today|tomorrow|tonight|yesterday|yet|still|currently|atm|right now|for now|this time"
    "|this one|just this once|once|first|again|later|until|jetzt|heute|morgen|gestern|diesmal|erstmal"
    "|vorerst|gerade|noch|ahora|hoy|mañana|ayer|esta vez|por ahora|todavía|de momento|primero|aún"
    "|maintenant|aujourd'hui|demain|cette fois|pour l'instant|pour le moment|encore|d'abord|今 天|明 天|昨 天"
    "|这 次|先|暂 时|现 在|刚 才|又",
    "THIS": "this|that|these|those|it|its|it's|dies|diese|dieser|dieses|diesen|este|esta|esto|ese|esa|eso|ce"
    "|cet|cette|ces|ça|这|这 个|那|那 个|它",
    "NOT": "not|no|dont|don't|doesn't|doesnt|isn't|isnt|aren't|arent|can't|cant|won't|wont|nothing|nobody"
    "|none|without|cannot|nicht|kein|keine|keinen|keiner|keinem|nichts|ohne|nada|sin|ningún|ninguna"
    "|nadie|ne|pas|aucun|aucune|rien|sans|不|别|没|不 要|不 能|不 用|禁 止",
    "MUST": "must|has to|have to|needs to|need to|needs|need|should|shall|required|mandatory|muss|müssen"
    "|soll|sollen|sollte|gehört|gehören|darf|dürfen|debe|deben|hay que|tiene que|tienen que|doit|doivent"
    "|il faut|faut|必 须|要|得|需 要|应 该|一 定",
    "ONLY": "only|solely|exclusively|nur|ausschließlich|solo|sólo|solamente|seulement|uniquement|只|仅|只 能|只 有",
    "INSTEAD": "instead|instead of|rather than|rather|over|prefer|statt|anstatt|lieber|en vez de|en lugar de"
    "|prefiero|au lieu|plutôt|préfère|而 不 是|代 替",
    "ENDED": "anymore|any more|any longer|no longer|stop|nicht mehr|ya no|deja de|ne plus|n'est plus|plus"
    "|arrête|不 再|不 要 再|别 再|已 经",
    "IS": "is|are|be|being|ist|sind|wird|werden|es|son|está|están|va|van|est|sont|是|在|为",
    "LIVE": "live|lives|goes|go|sits|belongs|belong|kept|stored|called|named|runs|uses|use|comes|come|liegt"
    "|liegen|steht|stehen|heißt|heißen|läuft|laufen|kommt|kommen|vive|viven|se llama|se llaman|usa"
    "|usamos|se trouve|se trouvent|s'appelle|utilise|utilisons|vont|放|叫|位 于|用",
    "ALL": "all|every|each|any|everything|everyone|whenever|every time|each time|alle|jede|jeder|jedes|alles"
    "|todo|todos|todas|toda|cada|cada vez|tout|tous|toutes|toute|chaque|所 有|每|每 个|每 次|任 何|全 部|都",
    "YOU": "you|u|ur|your|you're|youre|yourself|du|dir|dein|deine|tu|te|tus|toi|ton|ta|tes|你",
    "I": "i|i'm|im|i'd|id|i'll|me|my|mine|ich|mir|mich|mein|meine|yo|mi|mis|je|moi|mon|ma|mes|我",
    "ASKS": "why|what|whats|what's|how|which|who|where|does|did|do we|do you|can you|can u|could you|can we"
    "|should i|should we|would|is there|are there|warum|wieso|weshalb|wie|was|welche|welcher|wo"
    "|kannst du|können wir|por qué|qué|cómo|cuál|dónde|puedes|pourquoi|comment|quel|quelle|est-ce"
    "|peux-tu|tu peux|为 什 么|怎 么|什 么|哪|吗|能 不 能|帮 我",
    "WAS": "were|had|been|has been|have been|got|gets|used to|ago|last|failed|broke|broken|wrong|war|waren"
    "|hatte|hatten|wurde|fue|era|estaba|había|était|étaient|avait|了|过",
    "IF": "if|when|unless|before|after|wenn|falls|bevor|nachdem|sobald|si|cuando|antes de|después|quand"
    "|avant|après|如 果|当|之 前|之 后|时",
    "SO": "because|bc|cause|since|so|otherwise|or else|weil|sonst|denn|da|deshalb|porque|así que|si no|car"
    "|parce que|sinon|donc|因 为|否 则|不 然|所 以",
    "DO": "fix|add|write|make|show|look|find|check|give|explain|rename|change|update|remove|delete|run|try"
    "|move|put|revert|undo|create|build|implement|generate|tell|help|mach|mache|bau|schau|zeig|schreib"
    "|füg|änder|lösch|prüf|haz|pon|añade|arregla|mira|cambia|borra|quita|crea|dime|fais|ajoute|corrige"
    "|regarde|mets|enlève|crée|explique|montre|修|改|加|看|把|写|删",
}
"""What words of five languages have in common; a sign of Chinese is a word."""


class Reader:
    """Reads sentences with the shipped weights."""

    def __init__(self, weights: bytes | None = None) -> None:
        self._senses = {words: sense for sense, all_ in SENSES.items() for words in all_.split("|")}
        self._path = re.compile(PATH)
        if weights is None:
            with open(WEIGHTS, "rb") as file:
                weights = file.read()
        self._worth, self._start = HEADER.unpack_from(weights)
        self._weights = memoryview(weights)[HEADER.size :].cast("b")

    def states(self, sentence: str, nth: int, of: int) -> float:
        """Above 0 for a rule. The sentence is the nth, from 0, of so many in its prompt."""
        weights = self._weights
        total = 0.0
        for seen in self.seen(sentence, nth, of):
            total += sum([weights[one] for one in seen]) / len(seen) ** 0.5
        return float(self._start + self._worth * total)

    def seen(self, sentence: str, nth: int, of: int) -> list[set[int]]:
        """What is seen in a sentence, as numbers below BUCKETS, in groups that weigh the same however much is in them."""
        words = self._split(sentence)
        forms = ["^", *(_form(word) for word in words), "$"]
        senses = ["^", *self._sensed(words), "$"]
        run = ["^", *words, "$"]
        text = f" {' '.join(words)} "
        facts = [
            f"words {min(len(words), 31).bit_length()} {len(words) > 11} {len(words) > 17}",
            f"nth {min(nth, 2)}",
            f"of {min(of, 4)}",
            f"last {nth == of - 1}",
            f"path {'<path>' in forms}",
            f"number {'<number>' in forms}",
            f"commas {min(words.count(',') + words.count('，'), 2)}",
            f"colon {':' in words}",
            f"dots {'..' in sentence}",
            f"loud {min(sentence.count('!'), 2)}",
        ]
        groups = [
            words or ["$"],
            _runs(run, 2),
            [f"{one} _ {other}" for one, other in zip(run, run[2:], strict=False)],
            [word[:4] for word in words if len(word) > 4],
            [text[i : i + 4] for i in range(len(text) - 3)],
            forms,
            _runs(forms, 2),
            _runs(forms, 3),
            _runs(senses, 2),
            _runs(senses, 3),
            [" ".join(some[:end]) for some in (run, forms, senses) for end in (2, 3, 4)]
            + [" ".join(run[-3:])],
            facts,
        ]
        return [
            {zlib.crc32(f"{name}{one}".encode(errors="replace")) % BUCKETS for one in group}
            for name, group in zip("abcdefghijkl", groups, strict=True)
            if group
        ]

    def _split(self, sentence: str) -> list[str]:
        words: list[str] = []
        for part in sentence.lower().replace("’", "'").split():
            if self._path.search(part):
                words.append(part.rstrip(",.;:"))
                words.extend(part[len(words[-1]) :][:1])
            else:
                words.extend(re.findall(PLAIN_WORD if max(part) < "\u3040" else WORD, part))
        return words[:MOST_WORDS]

    def _sensed(self, words: list[str]) -> list[str]:
        """The senses in their order; what has none is "~", however many words."""
        sensed: list[str] = []
        at = 0
        while at < len(words):
            for end in range(min(len(words), at + LONGEST_PHRASE), at, -1):
                if sense := self._senses.get(" ".join(words[at:end])):
                    sensed.append(sense)
                    at = end
                    break
            else:
                form = _form(words[at])
                plain = "~" if form[0] != "<" and form not in MARKS else form
                if plain != "~" or not sensed or sensed[-1] != "~":
                    sensed.append(plain)
                at += 1
        return sensed


def _form(word: str) -> str:
    """A short word as it is, of a longer one its end, of a path that it is one."""
    if word.isdigit():
        return "<number>"
    if re.search(PATH, word):
        return "<path>"
    return word if len(word) <= 4 else f"~{word[-2:]}"


def _runs(words: list[str], length: int) -> list[str]:
    return [" ".join(words[i : i + length]) for i in range(len(words) - length + 1)]
