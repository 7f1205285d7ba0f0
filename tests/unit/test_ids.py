"""A name has one id, in the daemon and in the Python client, which share no code; what is almost a UUID has none."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

import memoryd_client
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daemon import ids

ONE = UUID("9f3c1de2-07ab-4c55-8e21-b6d04f7a93c8")
ALMOST = (
    str(ONE)[:-1],  # a digit is missing
    str(ONE)[:-8],
    str(ONE) + "0",
    "0" + str(ONE),
    str(ONE).replace("-", "", 1),
    str(ONE).replace("9f3c1de2-07ab", "9f3c1de-207ab"),  # a hyphen is in another place
    ONE.hex,
    ONE.hex.upper(),
    "-" + str(ONE) + "-",
    f"{ONE}\n",
    f" {ONE}",
    f"{{{ONE}}}",
    ONE.urn,
    str(ONE).replace("0", "O"),
    str(ONE).replace("-", "--"),
)
NAMES = (
    "mia",
    "42",
    "deadbeef",
    "2026-11-23",
    "0049-151-234-567-89",
    f"{ONE}-2",
    "telegram:42",
    f"user {ONE}",
    f"user:{ONE.hex}",
    "a-b-c-d-e-f",
    "507f1f77bcf86cd799439011",
    "Zoë 🦩",
    " ",
    "\0",
    "x" * 10_000,
    "🦩" * 10_000,
)
REFUSED = ("", "x" * 10_001, "\ud800", "mia\udc80")


def said(by: Callable[[str], UUID], text: str) -> UUID | str:
    """The id of a text, or the sentence by which it is refused."""
    try:
        return by(text)
    except (ValueError, memoryd_client.Refused) as error:
        return str(error)


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:20]))
def test_a_name_has_one_id_in_daemon_and_client(name: str) -> None:
    assert ids.id_of(name) == memoryd_client.id_of(name)
    assert ids.id_of(name).version == 5


@pytest.mark.parametrize("text", ALMOST)
def test_what_is_almost_a_uuid_is_nobodys_id(text: str) -> None:
    assert "almost a UUID" in str(said(ids.id_of, text))
    assert text not in str(said(ids.id_of, text))
    assert said(ids.id_of, text) == said(memoryd_client.id_of, text)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:20]))
def test_what_is_no_text_or_too_long_has_no_id(text: str) -> None:
    assert isinstance(said(ids.id_of, text), str)
    assert said(ids.id_of, text) == said(memoryd_client.id_of, text)


@given(
    st.text(st.characters())
    | st.text("0123456789abcdefABCDEF- {}\n", max_size=45)
    | st.from_regex(r"[0-9a-g]{7,9}(-[0-9a-f]{4}){3}-[0-9a-g]{11,13}", fullmatch=True)
)
@example(str(uuid4()).upper())
def test_daemon_and_client_say_the_same_of_every_text(text: str) -> None:
    answer = said(ids.id_of, text)
    assert answer == said(memoryd_client.id_of, text)
    assert isinstance(answer, str) or text
