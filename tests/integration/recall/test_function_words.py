"""Function words are no evidence, in any language: what shares nothing else with a question does not belong to it."""

# ruff: noqa: RUF001 - letters of other scripts are what is tested

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise

import asyncpg
import pytest

from daemon.db.migration_files import load_migrations
from tests.support.access.acting import ANN, acting_as
from tests.support.content.index import index_all, index_rows
from tests.support.processes.daemons import Daemons
from tests.support.rows import column, embedding, remember
from tests.support.waiting import until

BELONGS = "select content from recall($1, $2, match_count => 10, options => '{\"relevant_only\": true}')"
FOUND = "select content from recall($1, $2, match_count => 10)"

# Rows of daily life, and questions that share only function words with them: Postgres has no stop words of these languages.
UNRELATED: dict[str, tuple[tuple[str, ...], tuple[str, str]]] = {
    "Polish": (
        (
            "Na obiad było za mało soli, ale nie do końca mi to przeszkadza.",
            "Kupiłem sobie nowy rower i jest bardzo szybki.",
            "Moja siostra mieszka w Krakowie od trzech lat.",
            "W sobotę jedziemy z dziećmi nad morze, jeśli będzie pogoda.",
            "To jest najlepsza kawiarnia, jaką znam.",
        ),
        ("Jak nazywa się mój dentysta i gdzie on przyjmuje?", "Co to jest za hasło do routera?"),
    ),
    "Czech": (
        (
            "Včera jsem byl s bratrem v kině a film se mi líbil.",
            "Na zahradě mám jabloň, která je už hodně stará.",
            "Kde se dá koupit čerstvý chleba, to nevím.",
            "Musím si do pátku opravit kolo.",
            "Babička je z Brna, ale bydlí v Praze.",
        ),
        ("Kdy mi končí platnost pasu?", "Jak se jmenuje můj zubař a kde je jeho ordinace?"),
    ),
    "Slovak": (
        (
            "Včera som bol s bratom v kine a film sa mi páčil.",
            "Na záhrade mám jabloň, ktorá je už veľmi stará.",
            "Kde sa dá kúpiť čerstvý chlieb, to neviem.",
            "Babička je z Košíc, ale býva v Trnave.",
        ),
        ("Kedy mi končí platnosť pasu?", "Ako sa volá môj zubár a kde je jeho ordinácia?"),
    ),
    "Ukrainian": (
        (
            "Учора я був з братом у кіно, і фільм мені сподобався.",
            "У мене в саду є яблуня, яка вже дуже стара.",
            "Де можна купити свіжий хліб, я не знаю.",
            "Бабуся з Одеси, але живе у Львові.",
        ),
        ("Коли в мене закінчується паспорт?", "Як звати мого стоматолога і де він приймає?"),
    ),
    "Persian": (
        (
            "دیروز با برادرم به سینما رفتم و فیلم را دوست داشتم.",
            "در باغ من یک درخت سیب هست که خیلی پیر است.",
            "من این کتاب را از کتابخانه گرفته‌ام.",
            "مادربزرگم از شیراز است ولی در تهران زندگی می‌کند.",
        ),
        ("رمز وای‌فای من چیست؟", "دندانپزشک من کی است و در کجا کار می‌کند؟"),
    ),
    "Vietnamese": (
        (
            "Hôm qua tôi đi xem phim với anh trai và tôi rất thích.",
            "Trong vườn của tôi có một cây táo đã rất già.",
            "Bà tôi là người Huế nhưng bà sống ở Hà Nội.",
            "Tôi không biết có thể mua bánh mì tươi ở đâu.",
        ),
        ("Khi nào thì hộ chiếu của tôi hết hạn?", "Mật khẩu của bộ định tuyến là gì?"),
    ),
    "Catalan": (
        (
            "Ahir vaig anar al cinema amb el meu germà i la pel·lícula em va agradar.",
            "Al jardí tinc una pomera que ja és molt vella.",
            "No sé on es pot comprar pa fresc.",
            "La meva àvia és de Girona, però viu a Lleida.",
        ),
        ("Quina és la contrasenya del meu encaminador?", "Com es diu el meu dentista i on és la seva consulta?"),
    ),
    "Greek": (
        (
            "Χθες πήγα με τον αδελφό μου στο σινεμά και μου άρεσε η ταινία.",
            "Στον κήπο έχω μια μηλιά που είναι πολύ παλιά.",
            "Δεν ξέρω πού μπορεί να αγοράσει κανείς φρέσκο ψωμί.",
            "Η γιαγιά μου είναι από την Πάτρα, αλλά μένει στον Βόλο.",
        ),
        ("Ποιος είναι ο οδοντίατρός μου και πού είναι το ιατρείο του;", "Πότε λήγει το διαβατήριό μου;"),
    ),
    "Thai": (
        (
            "เมื่อวานฉันไปดูหนังกับพี่ชายและฉันชอบมาก",
            "ในสวนของฉันมีต้นแอปเปิลที่เก่ามาก",
            "ฉันไม่รู้ว่าจะซื้อขนมปังสดได้ที่ไหน",
            "คุณยายของฉันมาจากเชียงใหม่แต่อยู่ที่กรุงเทพ",
        ),
        ("หนังสือเดินทางของฉันหมดอายุเมื่อไหร่", "หมอฟันของฉันคือใคร"),
    ),
    "Japanese": (
        (
            "昨日は兄と映画館に行って、とても楽しかったです。",
            "私の庭にはとても古いりんごの木があります。",
            "新しいパンをどこで買えるのかわかりません。",
            "祖母は京都の出身ですが、大阪に住んでいます。",
        ),
        ("私のパスポートの有効期限はいつですか？", "ルーターのパスワードは何ですか？"),
    ),
    "Croatian": (
        (
            "Jučer sam bio s bratom u kinu i film mi se svidio.",
            "U vrtu imam jabuku koja je već jako stara.",
            "Ne znam gdje se može kupiti svježi kruh.",
            "Baka je iz Splita, ali živi u Zagrebu.",
        ),
        ("Kada mi istječe putovnica?", "Kako se zove moj zubar i gdje je njegova ordinacija?"),
    ),
    "Swahili": (
        (
            "Jana nilikwenda sinema na kaka yangu na filamu ilikuwa nzuri sana.",
            "Katika bustani yangu kuna mti wa tufaha ambao ni wa zamani sana.",
            "Bibi yangu ni wa Mombasa lakini anaishi Nairobi.",
            "Sijui ni wapi naweza kununua mkate wa leo.",
        ),
        ("Je, daktari wangu wa meno ni nani?", "Nenosiri la kipanga njia ni nini?"),
    ),
    "Bulgarian": (
        (
            "Съседката ме попита знаеш ли как се стига до новата библиотека.",
            "Не помня кой плати билетите за Варна.",
            "Моля, напомни ми да полея цветята в офиса.",
            "Лекарят ми каза да пия хапчетата два пъти на ден.",
        ),
        ("Знаеш ли кой спечели мача?", "Можеш ли да ми кажеш къде зимуват щъркелите?"),
    ),
    "Afrikaans": (
        (
            "Die buurvrou het gevra: weet jy hoe 'n mens by die nuwe biblioteek kom?",
            "Ek kan nie onthou wie vir die kaartjies betaal het nie.",
            "Ons weet nog nie hoekom die bediener gisteraand gaan lê het nie.",
        ),
        ("Weet jy hoekom voëls in die winter wegvlieg?", "Kan jy my asseblief sê waar die rugbyspan oefen?"),
    ),
    "Korean": (
        (
            "창고 열쇠는 화분 밑에 있고 어디에 있는지 아는 사람은 나와 민수뿐이다.",
            "보험 갱신이 언제인지 삼월이 되면 알려 주세요.",
            "서버가 어젯밤에 왜 멈췄는지 아직 모르지만 지금은 잘 돌아간다.",
        ),
        ("이 노래는 누가 불렀는지 알아?", "월드컵은 언제 시작해요?"),
    ),
    "Chinese": (
        (
            "服务器昨晚为什么停了，小林已经查清楚了，是因为硬盘满了。",
            "还不知道有多少人会来参加婚礼，不过我们已经订了二十桌。",
            "请提醒我三月份续保险。",
        ),
        ("猫为什么怕黄瓜？", "请问词典在哪里买的？"),
    ),
}  # fmt: skip


async def write(connection: asyncpg.Connection, *rows: str) -> None:
    """Remembers these texts, indexed and counted."""
    await index_rows(connection, "memory", [await remember(connection, text, agent_id="a") for text in rows])
    await connection.execute("select memoryd.fold_lexeme_changes()")


@pytest.mark.parametrize("language", sorted(UNRELATED))
async def test_rows_that_share_only_function_words_do_not_belong(
    scratch: asyncpg.Connection, language: str
) -> None:
    rows, questions = UNRELATED[language]
    await write(scratch, *rows)
    for question in questions:
        assert await column(scratch, BELONGS, question, "a") == []


@pytest.mark.parametrize("language", sorted(UNRELATED))
@pytest.mark.usefixtures("tokens")
async def test_nor_do_they_by_the_vectors_of_the_local_model(
    connection: asyncpg.Connection, language: str
) -> None:
    """It knows English: of other languages it finds all texts near each other, by their function words."""
    rows, questions = UNRELATED[language]
    for text in rows:
        await remember(connection, text, agent_id="a")
    await index_all(connection)
    for question in questions:
        assert await column(connection, BELONGS, question, "a") == []
        assert await column(connection, BELONGS, rows[0], "a") != []


@pytest.mark.usefixtures("tokens")
async def test_a_name_that_most_rows_have_is_no_evidence(connection: asyncpg.Connection) -> None:
    """What a project is called says nothing about which of its rows is meant, unless nothing else is asked."""
    for text in (
        "deploys of Zephyr run every Tuesday", "the database of Zephyr is Postgres", "Anna leads the Zephyr frontend",
        "Zephyr invoices go out on the first", "the Zephyr API allows a hundred calls", "the Zephyr logo is blue",
        "Zephyr customers are in Europe", "backups of Zephyr stay for thirty days", "tests of Zephyr take long",
        "Zephyr support answers quickly", "the budget of Zephyr ends in May", "Zephyr uses feature flags",
    ):  # fmt: skip
        await remember(connection, text, agent_id="a", user_id=ANN)
    await index_all(connection)
    await connection.execute("select memoryd.fold_lexeme_changes()")
    for user in (ANN, None):
        belongs = BELONGS.replace("$2", f"$2, user_id => '{ANN}'") if user is None else BELONGS
        async with acting_as(connection, user) if user else nullcontext():
            for question in ("Zephyr umbrella", "What does the Zephyr cat eat?"):
                assert await column(connection, belongs, question, "a") == []
            assert await column(connection, belongs, "Who leads the Zephyr frontend?", "a") == [
                "Anna leads the Zephyr frontend"
            ]
            assert len(await column(connection, belongs, "Tell me about Zephyr", "a")) == 10


@pytest.mark.usefixtures("tokens")
async def test_what_is_said_in_other_words_belongs_in_english(connection: asyncpg.Connection) -> None:
    for text in (
        "Mushrooms make me ill, I cannot eat them.",
        "The ferry leaves at noon.",
        "Secrets live in the vault.",
    ):
        await remember(connection, text, agent_id="a")
    await index_all(connection)
    found = await column(connection, BELONGS, "What food am I allergic to?", "a")
    assert found == ["Mushrooms make me ill, I cannot eat them."]


async def test_function_words_of_the_question_say_nothing_in_other_languages(
    scratch: asyncpg.Connection,
) -> None:
    rows = [*UNRELATED["Polish"][0], "The password of the router is in the kitchen drawer."]
    await write(scratch, *rows)
    assert await column(scratch, BELONGS, "How do I reset my password?", "a") == rows[-1:]


# Two rows that only marks tell apart, and words with their marks: of the first row, and of the second.
MARKS: dict[str, tuple[str, str, str | None, str]] = {
    "Vietnamese": ("Tôi mua cái bàn ở chợ", "Tôi gặp người bạn ở chợ", "bàn", "bạn"),
    "Polish": ("Trzeba jeszcze kupić sad za domem", "Trzeba jeszcze kupić sąd za domem", None, "sąd"),
    "Czech": ("Ta dráha vede až do Prahy", "Ta drahá vede až do Prahy", "dráha", "drahá"),
    "Spanish": ("Un ano después nos fuimos todos", "Un año después nos fuimos todos", None, "año"),
    "Romanian": ("Am văzut o fată în oglindă", "Am văzut o fața în oglindă", None, "fața"),
    "Turkish": ("Bu kış burada kar bekleniyor", "Bu kış burada kâr bekleniyor", None, "kâr"),
    "Yoruba": ("Mo rí ọkọ̀ ní ilé wa", "Mo rí òkò ní ilé wa", "ọkọ̀", "òkò"),
    "Russian": ("Все уехали на дачу вчера", "Всё уехало на дачу вчера", None, "всё"),
}


async def test_a_question_word_is_less_than_what_is_asked(scratch: asyncpg.Connection) -> None:
    rows = [
        "Claire est ma voisine du troisième étage.", "Quel beau projet.", "Mon frère est parti en voyage.",
        "Le métier de Claire : pharmacienne.", "Elle adore la montagne.", "Quelle heure est-il ?",
    ]  # fmt: skip
    await write(scratch, *rows)
    found = await column(scratch, FOUND, "Quel est le métier de Claire ?", "a")
    assert found[0] == rows[3]
    assert rows[1] not in found[:2]


async def test_a_word_in_most_rows_is_no_evidence(scratch: asyncpg.Connection) -> None:
    """Function words of a language that no list has are learned from its rows."""
    things = [
        f"{a}{b}" for a in ("bal", "dor", "fin", "gur", "hep") for b in ("ax", "ek", "il", "om", "ut", "yz")
    ]
    await write(scratch, *(f"zu {one} vra {other} qo" for one, other in pairwise(things)))
    assert await column(scratch, BELONGS, "qo vra zu klimpor stanveg", "a") == []
    assert await column(scratch, BELONGS, "qo vra zu dorek", "a") != []
    assert await column(scratch, FOUND, "vra", "a") != []


@pytest.mark.parametrize("language", sorted(MARKS))
async def test_marks_that_are_written_count(scratch: asyncpg.Connection, language: str) -> None:
    *rows, one, other = MARKS[language]
    await write(scratch, *rows)
    for question, row in ((one, rows[0]), (other, rows[1])):
        assert question is None or (await column(scratch, FOUND, question, "a"))[0] == row


async def test_who_leaves_marks_out_finds_both_and_is_found(scratch: asyncpg.Connection) -> None:
    rows = ["Quốc ca được hát ở sân vận động", "Quoc ca duoc hat o san van dong", "Con mèo ngủ trên ghế"]
    await write(scratch, *rows)
    assert set(await column(scratch, FOUND, "quoc ca", "a")) >= set(rows[:2])
    assert (await column(scratch, FOUND, "quốc ca", "a"))[:2] == rows[:2]
    lengths = "select length, cardinality(tsvector_to_array(lexemes)) from memoryd.entries where lexemes @@ 'quoc'::tsquery"
    (marked, words), (plain, fewer) = sorted(map(tuple, await scratch.fetch(lengths)), reverse=True)
    assert marked == plain
    assert words > fewer


async def test_rows_of_an_earlier_version_are_indexed_again(
    connection: asyncpg.Connection, daemons: Daemons
) -> None:
    await write(connection, "Quốc ca được hát ở sân vận động")
    lexemes = (
        "select lexemes @@ 'quốc'::tsquery and embedding::text is not distinct from $1 from memoryd.entries"
    )
    await connection.execute(
        "update memoryd.entries set lexemes = memoryd.lexemes_in('Quốc ca', 'simple'), embedding = $1::text::vector",
        embedding(1),
    )
    assert await column(connection, FOUND, "quốc ca", "a") != []
    before = await connection.fetchval("select embedding::text from memoryd.entries")
    assert await connection.fetchval(lexemes, before) is False
    await connection.execute(next(m.sql for m in load_migrations() if m.name == "written_words"))
    await daemons.start()
    await until(connection, lexemes, before)
