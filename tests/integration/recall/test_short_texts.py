"""A short text that does not tell its language has that of the texts beside it: a name may be a word of another language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import asyncpg
import pytest

from tests.support.access.acting import ANN, BOB
from tests.support.content.index import index_rows
from tests.support.rows import column, remember

pytestmark = pytest.mark.usefixtures("tokens")

BESIDE: Mapping[str, tuple[str, ...]] = {
    "english": (
        "The boiler is in the cellar and it must be cleaned every year.",
        "We have been to the lighthouse with our cousins.",
        "Her sister would like to rent the house by the lake.",
        "There are more of them behind the old barn.",
    ),
    "german": (
        "Der Kessel steht im Keller und muss jedes Jahr gereinigt werden.",
        "Wir waren mit den Kindern auf dem Leuchtturm.",
        "Ihre Schwester möchte das Haus am See mieten.",
        "Hinter der alten Scheune sind noch mehr davon.",
    ),
    "spanish": (
        "La caldera está en el sótano y hay que limpiarla cada año.",
        "Fuimos con los niños al faro que está sobre la bahía.",
        "Su hermana quiere alquilar una casa para el verano.",
        "Detrás del granero hay más de ellos todavía.",
        "El panadero del barrio abre muy temprano los domingos.",
    ),
    "french": (
        "La chaudière est dans la cave et il faut la nettoyer chaque année.",
        "Nous sommes allés au phare avec les enfants.",
        "Sa sœur voudrait louer la maison du lac pour les vacances.",
        "Il y en a encore derrière la vieille grange.",
        "Le boulanger du quartier ouvre très tôt le dimanche.",
    ),
}
"""Texts that tell their languages."""
# A row about somebody whose name is a word elsewhere, one of the same form as the question, and a question for the first.
SHORT: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "english": (
        ("Dan repairs bikes in Leeds", "I repair bikes", "Which bike did Dan repair?"),
        ("Ole fixes clocks", "I fix clocks", "Who fixed a clock, was it Ole?"),
        ("Kai and Mia visited castles", "I visit castles", "Which castle does Mia visit?"),
        ("Ben sells candles", "I sell candles", "Where does Ben sell a candle?"),
        ("Mina knitted scarves", "I knit scarves", "Is Mina knitting a scarf?"),
    ),
    "german": (
        ("Dan repariert Uhren", "Eine Uhr", "Welche Uhr hat Dan?"),
        ("Kim verleiht Boote", "Ein Boot", "Wem gehört das Boot von Kim?"),
        ("Sam sammelt Münzen", "Eine Münze", "Hat Sam noch die Münze?"),
    ),
    "spanish": (
        ("Dan arregla relojes", "Un reloj", "¿Qué reloj tiene Dan?"),
        ("Kim vende barcos", "Un barco", "¿De quién es el barco de Kim?"),
    ),
    "french": (
        ("Dan sculpte cygnes", "Un cygne", "Quel cygne est celui de Dan ?"),
        ("Kim dessine navires", "Un navire", "À qui est le navire de Kim ?"),
    ),
}
LANGUAGE = """
select e.language from memoryd.entries e join agent_memory m on m.id = e.id where m.content = $1 order by m.user_id
"""
FIRST = "select content from recall($1, user_id => $2, match_count => 1)"


async def write(connection: asyncpg.Connection, *texts: str, user: object = ANN) -> None:
    """Memories of the user, indexed at once and counted."""
    ids = [await remember(connection, text, user_id=user, kind="fact") for text in texts]
    await index_rows(connection, "memory", ids)
    await connection.execute("select memoryd.fold_lexeme_changes()")


@pytest.mark.parametrize("language", sorted(SHORT))
@pytest.mark.parametrize("first", [True, False], ids=["at once", "later"])
async def test_a_name_does_not_make_a_text_one_of_another_language(
    connection: asyncpg.Connection, language: str, first: bool
) -> None:
    """Whether they come with the others or one by one after them."""
    shorts = SHORT[language]
    rows = [text for row, other, _ in shorts for text in (row, other)]
    if first:
        await write(connection, *rows, *BESIDE[language])
    else:
        await write(connection, *BESIDE[language])
        for row in rows:
            await write(connection, row)
    assert {row: await column(connection, LANGUAGE, row) for row, _, _ in shorts} == {
        row: [language] for row, _, _ in shorts
    }
    found = {question: await column(connection, FIRST, question, ANN) for *_, question in shorts}
    assert found == {question: [row] for row, _, question in shorts}


async def test_what_tells_its_language_keeps_it(connection: asyncpg.Connection) -> None:
    """Also in a scope of another language, and where no language has most of the texts nothing changes."""
    told = {
        "Je suis allé au marché hier": "french",
        "Quiero dos billetes para mañana": "spanish",
        "Wann treffen wir uns, und wo?": "german",
        "Я люблю кофе": "russian",
        "我喜欢咖啡": "simple",
    }
    await write(connection, *BESIDE["english"] * 3, *told)
    assert {text: (await column(connection, LANGUAGE, text))[0] for text in told} == told
    mixed = {"Van repairs bikes in Leeds": "dutch", "Ali repariert Uhren": "portuguese"}
    await write(connection, *BESIDE["english"], *BESIDE["german"], *mixed, user=BOB)
    assert {text: (await column(connection, LANGUAGE, text))[0] for text in mixed} == mixed


async def test_what_says_nothing_is_of_the_language_beside_it(connection: asyncpg.Connection) -> None:
    await write(connection, *BESIDE["german"], "Tomaten", "Tim mag Gurken", user=ANN)
    await write(connection, "Tomaten", *BESIDE["english"], user=BOB)
    assert sorted(map(str, await column(connection, LANGUAGE, "Tomaten"))) == ["english", "german"]
    assert await column(connection, LANGUAGE, "Tim mag Gurken") == ["german"]


async def test_the_texts_of_another_user_decide_nothing(connection: asyncpg.Connection) -> None:
    await write(connection, *BESIDE["english"] * 5, user=BOB)
    await write(connection, "Ali repariert Uhren", user=ANN)
    assert await column(connection, LANGUAGE, "Ali repariert Uhren") == ["portuguese"]


async def test_one_text_alone_decides_nothing(connection: asyncpg.Connection) -> None:
    """Of the first texts of a user none has the others to go by; written again beside them, it has."""
    await write(connection, "Ali fixes clocks")
    assert await column(connection, LANGUAGE, "Ali fixes clocks") == ["portuguese"]
    await write(connection, *BESIDE["english"])
    await index_rows(connection, "memory")
    assert await column(connection, LANGUAGE, "Ali fixes clocks") == ["english"]


async def test_somebodys_name_alone_does_not_make_the_first_rows_of_another_language(
    connection: asyncpg.Connection,
) -> None:
    rows = ("Mia lives in Ghent", "Mia makes violins for a living", "Ben plants apples", "Hans bakes bread")
    await write(connection, *rows)
    assert {row: await column(connection, LANGUAGE, row) for row in rows} == {
        row: ["english"] for row in rows
    }
    only = FIRST.replace("match_count => 1", """match_count => 1, options => '{"relevant_only": true}'""")
    asked = ("where does Mia live?", "Mia", "which apple did Ben plant?")
    assert [await column(connection, only, one, ANN) for one in asked] == [[rows[0]], [rows[0]], [rows[2]]]
    told = {"La mia ragazza lavora a Milano": "italian", "Ben heb de sleutels en het geld": "dutch"}
    await write(connection, *told, user=BOB)
    assert {text: (await column(connection, LANGUAGE, text))[0] for text in told} == told


async def test_a_short_question_is_read_as_the_texts_are(connection: asyncpg.Connection) -> None:
    """Its function words are those of the language of the texts, of which "mia" is none."""
    await write(connection, *BESIDE["english"], "Mia has a blue kayak", "The kayak of the club is red")
    assert await column(connection, FIRST, "mia kayak", ANN) == ["Mia has a blue kayak"]
    await write(
        connection, *BESIDE["german"], "Dan hat ein blaues Kajak", "Das Kajak vom Verein ist rot", user=BOB
    )
    assert await column(connection, FIRST, "dan kajak", BOB) == ["Dan hat ein blaues Kajak"]


async def test_rows_that_are_not_indexed_yet_are_read_the_same(connection: asyncpg.Connection) -> None:
    await write(connection, *BESIDE["english"], "I repair bikes")
    await remember(connection, "Dan repairs bikes in Leeds", user_id=ANN, kind="fact")
    assert await column(connection, FIRST, "Which bike did Dan repair?", ANN) == [
        "Dan repairs bikes in Leeds"
    ]


async def test_allowed_languages_stay_the_only_ones(connection: asyncpg.Connection) -> None:
    await write(connection, *BESIDE["english"])
    await connection.execute(
        "insert into memoryd.settings (key, value) values ('languages', '[\"german\", \"french\"]') "
        "on conflict (key) do update set value = excluded.value"
    )
    await write(connection, "Ole fixes clocks")
    assert await column(connection, LANGUAGE, "Ole fixes clocks") == ["german"]
