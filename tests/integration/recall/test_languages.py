"""Words of every language: which language a text has, its lexemes, and what a question in it finds."""

# ruff: noqa: RUF001 - letters of other scripts are what is tested

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from benchmarks.search.languages import after, before, load
from daemon.settings import LANGUAGES
from tests.support.content.index import index_rows
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, remember

SAMPLES: Mapping[str, Any] = load()
UNSPACED = ("chinese", "japanese", "korean", "thai")

LANGUAGE_OF: Sequence[tuple[str, str]] = (
    ("We met at the harbour and talked about the old boats.", "english"),
    ("Caroline moved to Lisbon", "english"),
    ("Ann rides a unicycle", "english"),
    ("Don is a friend of Mo", "english"),
    ("San Jose is a city", "english"),
    ("Call mom", "english"),
    ("Wann treffen wir uns, und wo?", "german"),
    ("Je suis allé au marché hier", "french"),
    ("Quiero dos billetes para mañana", "spanish"),
    ("Obrigado, até amanhã", "portuguese"),
    ("Domani andiamo al mare con i bambini", "italian"),
    ("Ik heb gisteren een nieuwe fiets gekocht", "dutch"),
    ("Jag har inte sett honom på länge", "swedish"),
    ("Jeg ved ikke, hvad han hedder", "danish"),
    ("Ben yarın okula gideceğim", "turkish"),
    ("Minulla ei ole aikaa tänään", "finnish"),
    ("Nem tudom, hogy hol van a kulcs", "hungarian"),
    ("Nu știu unde este cheia și când vine", "romanian"),
    ("Saya tidak tahu di mana kunci itu", "indonesian"),
    ("Я люблю кофе", "russian"),
    ("Ја волим кафу и њега", "serbian"),
    ("Η γάτα είναι στο σπίτι", "greek"),
    ("أنا أحب القهوة", "arabic"),
    ("Ես սիրում եմ սուրճ", "armenian"),
    ("मैं कल दिल्ली गया था", "hindi"),
    ("म भोलि काठमाडौं जान्छु", "nepali"),
    ("எனக்கு காபி பிடிக்கும்", "tamil"),
    # No stemmer: they must not be stemmed as another language.
    ("Wczoraj byłem w kinie z mamą", "simple"),
    ("Tôi thích uống cà phê", "simple"),
    ("من قهوه را دوست دارم چون خوب است", "simple"),
    ("Я люблю їсти вареники з вишнею", "simple"),
    ("אני אוהב קפה", "simple"),
    ("我喜欢咖啡", "simple"),
    ("ฉันชอบกินข้าว", "simple"),
    # The words in another script than the signs around them.
    ("我喜欢用React写的页面", "english"),
    ("A difference of Δ 3 in the test", "english"),
    ("The café in Zürich was closed", "english"),
    # Pieces of an id are no words.
    ("umbrella of ac8a054a-0a2b-40a4-8b90-041127e71af9", "english"),
    ("Commit 5e1a7e2de9 broke release 4e2e", "english"),
    ("", "english"),
    ("😀😀😀", "english"),
    ("12345 67", "english"),
)

LEXEMES: Sequence[tuple[str, str, str, set[str]]] = (
    ("accents", "german", "Das Café der Müllers, Straße", {"cafe", "mull", "strass"}),
    ("decomposed", "french", "Cafe\u0301", {"caf"}),
    ("letters alone keep their accents", "english", "È¸ÀÇ í ø né", {"è", "ac", "í", "ø", "ne"}),
    ("full width", "english", "ＡＢＣ１２３ ﬁne", {"abc123", "fine"}),
    ("trade mark", "english", "Widget™", {"widget"}),
    ("Polish", "simple", "żółć łódź", {"zolc", "lodz"}),
    ("Danish", "simple", "rødgrød", {"rodgrod"}),
    ("yo and short i", "russian", "ёлка мой а\u0301збука", {"елк", "азбук"}),
    ("short i is kept", "simple", "йод", {"йод"}),
    ("Vietnamese", "simple", "đường phố", {"duong", "pho"}),
    ("Greek", "simple", "Καφές", {"καφεσ"}),
    ("marks of Arabic", "simple", "كِتَاب كتـــاب كتاب أحمد", {"كتاب", "احمد"}),
    ("signs of Hindi are letters", "simple", "की का कि", {"की", "का", "कि"}),
    ("Chinese beside Latin", "english", "用React写的页，好", {"用", "react", "写", "的", "页", "写的", "的页", "好"}),
    ("half width", "simple", "ﾃﾞｰﾀ", {"デ", "ー", "タ", "デー", "ータ"}),
    ("Korean", "simple", "학교에서 나", {"학교", "교에", "에서", "나"}),
    ("Thai", "simple", "กข", {"ก", "ข", "กข"}),
    ("outside the first plane", "simple", "𠀀𠀁", {"𠀀", "𠀁", "𠀀𠀁"}),
    ("paths", "german", "/etc/müller_daten.txt a@b.de", {"etc", "mull", "dat", "txt", "a", "b", "de"}),
    ("invisible", "german", "Schiff\u00adfahrt\u200b", {"schifffahrt"}),
    ("not known", "klingon", "Houses", {"houses"}),
)  # fmt: skip

HOSTILE: Mapping[str, str] = {
    "one of many scripts": "".join(chr(c) for c in range(0x20, 0x2FA20, 19) if not 0xD800 <= c <= 0xDFFF),
    "marks only": "\u0301\u0323\u0316" * 3000,
    "marks in the slowest order": "a" + "\u0301" * 16000 + "\u0323" * 16000,
    "emoji with joiners": "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd \u2764\ufe0f",
    "directions": "\u202eabc\u202c \u200fשלום\u200e \u2066x\u2069",
    "five megabytes": "Grüße ist das, 中文 " * 250_000,
    "one word of a megabyte": "ö" * 500_000,
    "one Chinese word of a megabyte": "中文" * 170_000,
    "one Thai letter": "ก" * 40_000,
    "control characters": "".join(chr(c) for c in range(1, 32)) + "\u0085\u009f",
    "expanding": "\ufdfa" * 32_768,
    "jamo": "\u1100\u1161\u11a8" * 1000,
    "quotes": "'' \\ ' é'é \\' 'ü\\",
    "mark": "=german ==english ~german #memory @bob x:1 'é':2",
    "not characters": "\ufffe\uffff\U0010ffff",
    "joiners": "\u200d\u200c\ufe0f" * 100,
}


@pytest.mark.parametrize(
    ("text", "language"), LANGUAGE_OF, ids=[f"{n} {row[1]}" for n, row in enumerate(LANGUAGE_OF)]
)
async def test_the_language_of_a_text_is_recognised(
    scratch: asyncpg.Connection, text: str, language: str
) -> None:
    assert await scratch.fetchval("select memoryd.language_of($1)", text) == language


async def test_only_allowed_languages_are_recognised(scratch: asyncpg.Connection) -> None:
    of = "select memoryd.language_of($1, $2::text[])"
    both = ["german", "english"]
    assert await scratch.fetchval(of, "I was there with them yesterday", both) == "english"
    assert await scratch.fetchval(of, "Je suis allé au marché hier avec eux", ["german"]) == "german"
    assert await scratch.fetchval(of, "Tor 3", both) == "german"
    assert await scratch.fetchval(of, "Я люблю кофе", both) == "german"
    assert await scratch.fetchval(of, "म भोलि जान्छु", ["english", "nepali"]) == "nepali"
    assert await scratch.fetchval(of, None, both) == "german"


@pytest.mark.parametrize(
    ("language", "text", "lexemes"), [row[1:] for row in LEXEMES], ids=[row[0] for row in LEXEMES]
)
async def test_lexemes(scratch: asyncpg.Connection, language: str, text: str, lexemes: set[str]) -> None:
    assert (
        set(await scratch.fetchval("select tsvector_to_array(memoryd.lexemes_in($1, $2))", text, language))
        == lexemes
    )


async def test_each_occurrence_counts(scratch: asyncpg.Connection) -> None:
    counts = "select lexeme, cardinality(positions) from unnest(memoryd.lexemes_in($1, 'simple'))"
    found = await scratch.fetch(counts, "狗狗 café cafe 狗 Café 나나")
    assert {row[0]: row[1] for row in found} == {"狗": 3, "狗狗": 1, "cafe": 3, "나나": 1}


async def test_english_lexemes_are_what_they_were(scratch: asyncpg.Connection) -> None:
    root = Path(__file__).parents[3]
    files = [
        *root.glob("docs/*.md"),
        *root.glob("*.md"),
        *root.glob("daemon/**/*.py"),
        *root.glob("plugins/**/*.py"),
        *root.glob("migrations/**/*.sql"),
    ]
    wholes = [file.read_text("utf-8") for file in files]
    texts = [text for whole in wholes for text in [whole, *whole.split("\n\n")] if text.isascii()]
    assert len(texts) > 2000
    differs = """
    select t from unnest($1::text[]) t
    where memoryd.lexemes_in(t, 'english') is distinct from memoryd.lexemes_of(t)
    """
    assert await column(scratch, differs, texts) == []
    recognised = (
        "select t from unnest($1::text[]) t where length(t) > 200 and memoryd.language_of(t) <> 'english'"
    )
    documents = sorted(set(root.glob("docs/*.md")) - {root / "docs/languages.md"})
    prose = [text for file in documents for text in file.read_text("utf-8").split("\n\n")]
    assert len(prose) > 200
    assert await column(scratch, recognised, prose) == []


@pytest.mark.parametrize("language", sorted(SAMPLES))
async def test_questions_find_the_row_that_answers_them(scratch: asyncpg.Connection, language: str) -> None:
    old, new = await before(scratch, SAMPLES[language]), await after(scratch, SAMPLES[language])
    assert new.first >= 9
    assert new.first > old.first
    if language in UNSPACED:
        assert old.third == 0


@pytest.mark.parametrize("what", sorted(HOSTILE))
async def test_any_text_has_lexemes(scratch: asyncpg.Connection, what: str) -> None:
    # Postgres itself refuses a tsvector of more than a megabyte, which no text of 32,768 characters makes.
    await scratch.execute("set local statement_timeout = '4s'")
    text = HOSTILE[what]
    for language in ("english", "german", "arabic", "simple"):
        lexemes = await scratch.fetchval(
            "select tsvector_to_array(memoryd.lexemes_in($1, $2))", text, language
        )
        assert not [lexeme for lexeme in lexemes if lexeme.startswith("=") or not lexeme.strip()]
    assert await scratch.fetchval("select memoryd.language_of($1)", text) in LANGUAGES
    asked = "select memoryd.words_in($1, '{english,german,simple}')"
    assert isinstance(await scratch.fetchval(asked, text[:8192]), list)
    assert isinstance(await scratch.fetchval("select memoryd.words_in($1)", text[:8192]), list)


async def test_a_question_is_looked_up_in_each_language(scratch: asyncpg.Connection) -> None:
    asked = "select memoryd.words_in($1, $2::text[])"
    assert await scratch.fetchval(asked, "running Häuser", ["english", "german"]) == [
        "haus",
        "hauser",
        "run",
        "running",
    ]
    assert await scratch.fetchval(asked, "running", []) == []


async def test_names_are_the_same_in_every_language(scratch: asyncpg.Connection) -> None:
    of = "select memoryd.words_in($1)"
    assert await scratch.fetchval(of, "José Müller") == ["jose", "muller"]
    assert await scratch.fetchval(of, "王小明") == ["小明", "王小"]
    assert await scratch.fetchval(of, "李") == ["李"]
    assert await scratch.fetchval(of, "Caroline") == await scratch.fetchval(
        "select tsvector_to_array(memoryd.lexemes_of('Caroline'))"
    )


async def test_the_languages_asked_are_those_of_the_callers_rows(scratch: asyncpg.Connection) -> None:
    await scratch.execute(
        "insert into memoryd.scope_statistics (scope, source, language, passages, words) "
        "select s, 'memory', l, n, n from (values (1, 'german', 9), (1, 'english', 3), (2, 'turkish', 50), "
        "(1, 'danish', 2), (1, 'dutch', 1), (1, 'finnish', 1)) v(s, l, n)"
    )
    asked = "select (memoryd.words_asked($1, $2, true)).languages"
    words = "The boats that we saw at the harbour"
    assert await scratch.fetchval(asked, words, [1]) == ["english", "german", "danish", "dutch"]
    assert await scratch.fetchval(asked, "Les bateaux que nous avons vus", [1]) == [
        "german", "english", "danish", "dutch", "french",
    ]  # fmt: skip
    assert (await scratch.fetchval(asked, words, [1, 2]))[:3] == ["english", "turkish", "german"]
    assert await scratch.fetchval(asked, words, [3]) == ["english"]
    await scratch.execute(
        "insert into memoryd.settings (key, value) values ('languages', '[\"danish\", \"german\"]') "
        "on conflict (key) do update set value = excluded.value"
    )
    assert (await scratch.fetchval(asked, words, [1]))[0] == "danish"


async def test_the_known_languages_are_those_of_postgres(scratch: asyncpg.Connection) -> None:
    there = await column(
        scratch, "select cfgname from pg_ts_config where cfgnamespace = 'pg_catalog'::regnamespace"
    )
    # Estonian came with Postgres 18. Where it is not, its words are not stemmed.
    assert set(there) | {"estonian"} == set(LANGUAGES)
    made = await scratch.fetchval("select tsvector_to_array(memoryd.lexemes_in('raamatud', 'estonian'))")
    assert made in (["raama"], ["raamatud"])
    known = "select distinct l.value from jsonb_each_text(memoryd.frequent_words() -> ' ') l"
    assert set(await column(scratch, known)) <= set(LANGUAGES)


THREE = "select id from recall($1, $2, match_count => 3)"


async def test_the_daemon_writes_the_languages_of_its_settings(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    allowed = (
        "select array(select jsonb_array_elements_text(value)) from memoryd.settings where key = 'languages'"
    )
    assert not await connection.fetchval(allowed)
    daemon = await daemons.start(languages="German, english")
    assert await connection.fetchval(allowed) == ["german", "english"]
    await daemon.stop()
    await daemons.start()
    assert not await connection.fetchval(allowed)


async def test_recall_answers_in_every_language(scratch: asyncpg.Connection) -> None:
    right: Counter[str] = Counter()
    for language, sample in SAMPLES.items():
        ids = [await remember(scratch, text, agent_id=language) for text in sample["rows"]]
        await index_rows(scratch, "memory", ids)
        for question in sample["questions"]:
            three = await column(scratch, THREE, question["question"], language)
            right[language] += ids[question["row"]] in three
    assert {language: right[language] for language in SAMPLES if right[language] < 7} == {}
