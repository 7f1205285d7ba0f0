"""Text in any encoding is read as it was written, or is marked as a guess, or rejected: garbage is never stored as known."""

# ruff: noqa: RUF001 - letters of other scripts are what is tested

from __future__ import annotations

import base64

import pytest

from plugins.documents.ports import Parser
from plugins.files.local import UnreadableFileError

RUSSIAN = "Протокол собрания от двенадцатого марта. Решили перенести склад в Тверь."
JAPANESE = "議事録、倉庫を大阪へ移すことに決めた。"
UNDECLARED = {
    "cp1251": RUSSIAN,
    "koi8-r": RUSSIAN,
    "cp866": RUSSIAN,
    "iso8859-5": RUSSIAN,
    "mac-cyrillic": RUSSIAN,
    "koi8-u": "Протокол зборів. Вирішили перевезти склад до Львова і найняти двох водіїв.",
    "cp932": "名前,年齢,住所\n佐藤太郎,30,東京\n三木英子,25,大阪\n",
    "euc_jp": JAPANESE,
    "iso2022_jp": JAPANESE,
    "gbk": "会议记录 决定将仓库迁往上海并雇用两名司机",
    "gb18030": "会议由朱镕基主持，决定将仓库迁往上海并雇用两名司机",
    "hz": "会议记录决定将仓库迁往上海并雇用两名司机",
    "big5": "會議記錄 決定將倉庫遷往臺北",
    "euc_kr": "회의록 창고를 부산으로 옮기기로 했다",
    "iso2022_kr": "회의록 창고를 부산으로 옮기기로 했다",
    "cp1253": "Αποφασίστηκε η μεταφορά της αποθήκης στη Θεσσαλονίκη.",
    "cp1250": "Zápis ze schůze. Sklad se přestěhuje do Brna, přijmeme dva řidiče.",
    "iso8859-2": "Zápis ze schůze. Sklad se přestěhuje do Brna, přijmeme dva řidiče.",
    "cp852": "Protokół zebrania. Magazyn przenosimy do Łodzi, zatrudnimy dwóch kierowców.",
    "cp1254": "Deponun İzmir'e taşınmasına ve iki şoför alınmasına karar verildi.",
    "cp1255": "הוחלט להעביר את המחסן לחיפה ולגייס שני נהגים.",
    "cp1256": "تقرر نقل المستودع إلى الإسكندرية وتعيين سائقين.",
    "cp1257": "Susirinkimo protokolas. Nuspręsta sandėlį perkelti į Šiaulius ir samdyti du vairuotojus.",
    "cp874": "ที่ประชุมตกลงย้ายคลังสินค้าไปเชียงใหม่และจ้างคนขับรถสองคน",
    "cp1252": "Das Lager zieht nach Köln um, wir stellen zwei Fahrer für die „Süd“-Route ein.",
    "cp850": "Das Lager zieht nach Köln um, dafür müssen wir zwei Fahrer für die Route über Fürth einstellen.",
    "utf-16-le": "The warehouse moves to Köln.",
    "utf-16-be": RUSSIAN,
}
DECLARED = {
    "gb2312": ("会议由朱镕基主持，请喆先生参加", "gb18030"),
    "shift_jis": ("第①回会議は木曜日です。髙橋さんが来ます。", "cp932"),
    "x-sjis": ("会議は木曜日です。", "cp932"),
    "euc-jp": ("第①回会議は木曜日です。", "euc_jis_2004"),
    "euc-kr": ("똠방각하 회의는 목요일입니다", "cp949"),
    "ks_c_5601-1987": ("회의는 목요일입니다", "cp949"),
    "big5": ("會議在星期四，堃先生參加", "big5hkscs"),
    "iso-8859-8-i": ("הפגישה ביום חמישי", "iso8859-8"),
    "windows-874": ("ประชุมวันพฤหัส", "cp874"),
    "tis-620": ("ประชุมวันพฤหัส", "cp874"),
    "iso-8859-1": ("“ja”, für 5 €", "cp1252"),
    "cp850": ("für 5 £", "cp850"),
    "utf-8": (RUSSIAN, "cp1251"),  # it says so, but is not
    "us-ascii": (RUSSIAN, "koi8-r"),
    "koi8-r": (RUSSIAN, "utf-8"),
    "no-such-encoding": (RUSSIAN, "cp1251"),
}


@pytest.mark.parametrize("encoding", UNDECLARED)
async def test_undeclared_text_is_read_and_marked_as_a_guess(parser: Parser, encoding: str) -> None:
    text = UNDECLARED[encoding]
    parsed = await parser.parse(text.encode(encoding), "a.txt")
    assert parsed.text == text
    assert 0.5 <= parsed.metadata["encoding_confidence"] < 1
    assert text.encode(parsed.metadata["encoding"]) == text.encode(encoding)


@pytest.mark.parametrize("name", ["a.md", "a.csv", "a.json", "a.html", "a.eml"])
async def test_every_kind_of_text_is_decoded_alike(parser: Parser, name: str) -> None:
    before = {"a.eml": "From: a@example.org\n\n", "a.json": '{"a": "', "a.html": "<p>"}.get(name, "")
    after = '"}' if name == "a.json" else ""
    content = (before + RUSSIAN + after).encode("koi8-r")
    parsed = await parser.parse(content, name)
    assert RUSSIAN in parsed.text
    assert (parsed.metadata["encoding"], parsed.metadata["encoding_confidence"]) == ("koi8-r", 0.99)


@pytest.mark.parametrize("label", DECLARED)
async def test_what_a_page_or_an_email_declares_is_read_as_browsers_do(parser: Parser, label: str) -> None:
    text, encoding = DECLARED[label]
    content = text.encode(encoding)
    page = f"<html><head><meta charset='{label}'></head><p>".encode() + content + b"</p></html>"
    mail = f"From: a@example.org\nSubject: x\nContent-Type: text/plain; charset={label}\n"
    mail += f"Content-Transfer-Encoding: base64\n\n{base64.b64encode(content).decode()}\n"
    subject = f"From: a@example.org\nSubject: =?{label}?B?{base64.b64encode(content).decode()}?=\n\nwords"
    assert (await parser.parse(page, "a.html")).text == text
    assert (await parser.parse(mail.encode(), "a.eml")).text.endswith(f"\n\n{text}")
    assert (await parser.parse(subject.encode(), "a.eml")).title == text


async def test_one_byte_that_does_not_fit_spoils_no_other(parser: Parser) -> None:
    words = "会議は木曜日です。".encode("euc_jp") + b"\xff " + "場所は大阪です。".encode("euc_jp")
    parsed = await parser.parse(b"<meta charset='euc-jp'><p>" + words + b"</p>", "a.html")
    assert (parsed.text, dict(parsed.metadata)) == ("会議は木曜日です。\ufffd 場所は大阪です。", {})


async def test_xml_names_its_encoding(parser: Parser) -> None:
    text = f'<?xml version="1.0" encoding="windows-1251"?><a>{RUSSIAN}</a>'
    parsed = await parser.parse(text.encode("cp1251"), "a.xml")
    assert (parsed.text, dict(parsed.metadata)) == (text, {})


async def test_text_of_which_nothing_can_be_told_is_rejected_with_what_to_do(parser: Parser) -> None:
    noise = bytes(128 + 37 * n * n % 128 if n % 3 else 65 + n % 26 for n in range(400))
    with pytest.raises(UnreadableFileError, match="Save it as UTF-8"):
        await parser.parse(noise, "a.txt")


async def test_headers_of_eight_bits_and_words_cut_in_a_character_are_read(parser: Parser) -> None:
    whole = base64.b64encode("木曜日の会議".encode()[:10]), base64.b64encode("木曜日の会議".encode()[10:])
    words = b" ".join(b"=?utf-8?B?" + each + b"?=" for each in whole)
    content = b"From: " + "Иван Петров".encode("koi8-r") + b" <i@example.org>\nSubject: " + words + b"\n\nx"
    parsed = await parser.parse(content, "a.eml")
    assert (parsed.title, parsed.metadata["from"]) == ("木曜日の会議", "Иван Петров <i@example.org>")
