"""Whether a rule takes the place of an earlier one: the same subject with another value, or the opposite.

"Answer in English" replaces "answer in German", "never squash" replaces "always squash"; "code comments are in English" leaves
"commit messages are in English" alone. Where in doubt both stay: of an old rule and a new one the new one is given first, but a
rule that is ended wrongly is lost.

A rule is read as what it affirms and what it denies. Each word has a slot: behind a verb or preposition that values
follow ("use", "with", "is"), before it (the subject), or behind one that says where the rule holds ("for", "when"). Two rules
are about the same thing if their words are the same, apart from values of one kind. English, German, Spanish, French and
Chinese.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from plugins.hooks.lexicon import kind_of, parts_of

INTRODUCED = ("use", "run", "write", "is", "lives", "goes", "called", "with", "in")
"""Slots of values."""
STANDS = ("is", "lives", "goes", "called")
"""Slots behind which a preposition is a part of the verb: "lives in", "is at"."""
OF_A_THING = {kind_of("english"), kind_of("tabs")}
"""Kinds of values of which each thing may have its own: Makefiles keep their tabs where the rest no longer has any."""
FIXED = {"subject", "scope"}
"""Slots of what a rule is about: a word there is no value."""
MOST_DIFFERING = 4
"""Words of a value, such as a command."""
Mark = str | tuple[str, str | frozenset[str]]


class Rule:
    """A rule as what it affirms and what it denies."""

    def __init__(self, text: str) -> None:
        self.does: dict[str, str] = {}
        """The words that it affirms, and the slot of each."""
        self.denies: list[tuple[frozenset[str], bool]] = []
        """The words of each part that it denies, and whether it says that this has ended."""
        self.limits = self.adds = False
        self.verbs: set[str] = set()
        self._begin()
        parts = parts_of(text)
        for nth, (role, word) in enumerate(parts):
            if role == "stop" and (self._words or self.does or self.denies):
                break
            self._take(
                role, word, next((one for one_role, one in parts[nth + 1 :] if one_role == "content"), "")
            )
        self._end()

    def _begin(self, denied: bool = False) -> None:
        self._words: list[tuple[str, str]] = []
        self._not, self._without, self._ended, self._ne, self._moved = denied, False, False, False, False
        self._instead = denied
        self._slot, self._fresh, self._joined = "first", True, False

    def _end(self) -> None:
        words, denied = self._words, self._not != self._without
        if words and denied:
            self.denies.append((frozenset(word for word, _ in words), self._ended))
        elif words:
            last, slot = words[-1]
            words[-1] = (last, "last" if slot == "object" else slot)
            self.does = {**dict(reversed(words)), **self.does}
        self._begin()

    def _take(self, role: str, word: str, coming: str) -> None:
        if role == "content":
            slot = "object" if self._slot == "first" and self._words else self._slot
            last = self._words[-1][0] if self._words else ""
            if slot == "in" and not (self._fresh or self._joined or kind_of(last).startswith("quality")):
                self._words[-1] = (last, "object")  # "in German texts"
            self._words.append((word, slot))
            self._fresh = self._joined = False
        elif role == "and":
            self._joined = True
        elif role in ("not", "plus", "ended", "without", "any more", "ne", "limit", "also", "moved"):
            self._deny(role, coming)
        elif role == "instead" or (role == "from" and self._moved):
            moved = role == "from"
            self._end()
            self._begin(denied=True)
            self._ended = self._moved = moved
        elif role == "clause" or (role == "to" and self._moved and self._words):
            self._end()
        elif role in ("use", "run", "write", *STANDS):
            self._verb(role, coming)
        elif role in ("with", "in", "for", "to", "from"):
            self._preposition(role)

    def _deny(self, role: str, coming: str) -> None:
        if role == "not" and coming and not self._fresh:
            last, slot = self._words[-1]
            if slot in ("use", "with") or (slot in INTRODUCED and kind_of(last) == kind_of(coming) != ""):
                self._end()  # use this, not that
        if role == "ended" or (role == "plus" and self._ne):
            self._not = self._ended = True
        elif role == "any more":
            self._ended = True
        elif role == "limit":
            self.limits = True
        elif role == "also":
            self.adds = True
        elif role in ("not", "without", "ne", "moved"):
            setattr(self, f"_{role}", True)

    def _verb(self, role: str, coming: str) -> None:
        if self._fresh and self._slot == "scope":
            return  # "to run"
        if role == "run" and not self._fresh and self._slot in ("use", "run", "with"):
            return  # "with uv run pytest"
        if self._instead and self._words:
            self._end()  # instead of that use this
        self.verbs |= {role} & {"run", "write"}
        if coming:
            kept = "use" if role == "write" else ""  # 用中文写提交信息
            self._words = [(word, slot if slot == kept else "subject") for word, slot in self._words]
            self._slot, self._fresh = role, True

    def _preposition(self, role: str) -> None:
        if self._fresh and self._slot in STANDS and role in ("in", "to"):
            return  # "lives in"
        used = role == "in" and self._slot == "use" and not self._fresh
        self._slot = "scope" if used or role in ("for", "to", "from") else role
        self._fresh = True


def replaced(rules: list[tuple[str, str]], stated: set[str]) -> list[tuple[str, str]]:
    """Which rules give way, and to which: the id of each with that of the newest that replaces it.

    `rules`: ids and texts of those that hold, the oldest first. Only pairs with a rule of `stated` are compared, and of these
    only those that `_sought` does not rule out.
    """
    read = [Rule(text) for _, text in rules]
    marked: dict[Mark, set[int]] = {}
    for nth, rule in enumerate(read):
        for mark in _marks(rule):
            marked.setdefault(mark, set()).add(nth)
    ended: dict[int, int] = {}
    for nth in reversed(range(len(read))):
        found: set[int] = set()
        for marks in _sought(read[nth]):
            found |= set.intersection(*sorted((marked.get(mark, set()) for mark in marks), key=len))
        found = {
            other
            for other in found
            if other < nth and not stated.isdisjoint((rules[nth][0], rules[other][0]))
        }
        gone = [other for other in found if replaces(read[nth], read[other])]
        ended |= dict.fromkeys(gone, nth)
        for other in (nth, *gone):
            for mark in _marks(read[other]):
                marked[mark].discard(other)
    return [(rules[old][0], rules[new][0]) for old, new in sorted(ended.items())]


def _marks(rule: Rule) -> set[Mark]:
    """By what an older rule is found: its words, their slots, what stays if values of a kind change, and what it denies."""
    slots = {("slot", slot) for slot in rule.does.values()}
    denied = {("denies", _without_numbers(words)) for words, _ in rule.denies}
    return {*rule.does, _frame(rule), *slots, *denied}


def _sought(rule: Rule) -> Iterator[set[Mark]]:
    """The marks of the rules that a rule may replace, in several ways: each of those has all the marks of one of them."""
    for words, _ in rule.denies:
        yield set(words)
        yield {("denies", _without_numbers(words))}
    if rule.does:
        yield {_frame(rule), *(word for word, slot in rule.does.items() if slot in FIXED)}
        yield {("denies", _without_numbers(rule.does))}
    for slot in {"with", "use", *STANDS}.intersection(rule.does.values()):
        if same := {word for word, other in rule.does.items() if other != slot}:
            yield {*same, ("slot", slot)}


def _frame(rule: Rule) -> Mark:
    return "frame", frozenset(word for word in rule.does if kind_of(word) in ("", "path", "name"))


def _without_numbers(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word for word in words if kind_of(word) != "number")


def replaces(newer: Rule, older: Rule) -> bool:
    """Whether a rule that was stated later takes the place of an earlier one. Both hold where that is in doubt."""
    if newer.adds or not (_denies(newer, older) or _affirms(newer, older)):
        return False
    return not _denies_more(newer, older)


def _denies_more(newer: Rule, older: Rule) -> bool:
    """Whether the older rule affirms something, and denies what has nothing to do with it: that would be lost."""
    denied = [words for words, _ in newer.denies]
    kinds = {kind_of(word) for word in older.does} - {""}
    return bool(older.does) and any(
        words not in denied
        and not words & (older.does.keys() | newer.does.keys())
        and kinds.isdisjoint(map(kind_of, words))
        for words, _ in older.denies
    )


def _denies(newer: Rule, older: Rule) -> bool:
    """Whether the newer rule says that what the older one says no longer holds."""
    does = older.does.keys()
    for words, ended in newer.denies:
        left = does - words
        if words == does or (words < does and newer.does and left <= newer.does.keys()):
            return True
        if ended and words < does and all(map(kind_of, newer.does)):
            slots = {older.does[word] for word in words}
            # "Windows no longer" leaves "Windows and Linux" as it is.
            beside = {*INTRODUCED} & slots & {older.does[word] for word in left}
            tools = slots <= {*INTRODUCED} and OF_A_THING.isdisjoint(map(kind_of, words))
            if not beside and (len(words) > len(left) or tools):
                return True
    return False


def _affirms(newer: Rule, older: Rule) -> bool:
    """Whether the newer rule says the opposite, the same, or the same of another value."""
    denied = [words for words, _ in newer.denies]
    kept = [words for words, _ in older.denies if words not in denied]
    if not older.does:
        if newer.does:
            return kept == [newer.does.keys()]
        limits = newer.limits and older.limits and len(denied) == len(kept) == 1
        # Rules that differ by their numbers alone: "never more than 3".
        by_numbers = limits and {kind_of(word) for word in denied[0] ^ kept[0]} == {"number"}
        return bool(older.denies) and (not kept or by_numbers)
    new = {word: slot for word, slot in newer.does.items() if word not in older.does}
    old = {word: slot for word, slot in older.does.items() if word not in newer.does}
    if not new and not old:
        return not kept
    if max(len(new), len(old)) > MOST_DIFFERING or not (new and old):
        return False
    if newer.verbs and older.verbs and newer.verbs.isdisjoint(older.verbs):
        return False
    return _are_of_a_kind(newer, new, old) or _are_named(newer, new, old)


def _are_of_a_kind(newer: Rule, new: dict[str, str], old: dict[str, str]) -> bool:
    """Whether words that differ are values of one kind, of which one excludes the others."""
    kinds = [{kind_of(word) for word in words} for words in (new, old)]
    indents = kind_of("tabs")
    if indents in kinds[0] & kinds[1]:
        for each in kinds:
            each.discard("number")
    if kinds[0] != kinds[1] or len(kinds[0]) != 1 or not all(kinds):
        return False
    [kind] = kinds[0]
    slots = {*new.values(), *old.values()}
    if kind == "number":
        return slots.isdisjoint(FIXED) and len(newer.does) > len(new)
    ends = {"last"} if kind.startswith("quality") else set()
    return kind not in ("", "path", "name") and slots <= {*INTRODUCED, "first", *ends}


def _are_named(newer: Rule, new: dict[str, str], old: dict[str, str]) -> bool:
    """Whether the same thing has another name, another place or another tool."""
    slots = {*new.values(), *old.values()}
    same = [slot for word, slot in newer.does.items() if word not in new]
    if len(slots) != 1 or not slots.isdisjoint(same) or not same:
        return False
    [slot] = slots
    if slot in ("with", "use"):
        known = [[kind_of(word)[:4] in ("tool", "path", "name") for word in words] for words in (new, old)]
        return all(any(each) and each.count(False) < 2 for each in known)
    if slot not in STANDS or len(new) != 1 or len(old) != 1:
        return False
    return slot in ("called", "lives") or all(kind_of(word) in ("path", "name") for word in (*new, *old))
