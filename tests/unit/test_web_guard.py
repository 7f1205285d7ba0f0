"""Who is in, and for how long: the sessions of `memoryd web`, with a clock of the test's own."""

from __future__ import annotations

from plugins.web.sign_in import Guard


class Clock:
    """A clock that stands still."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_ends_some_time_after_its_last_request() -> None:
    clock = Clock()
    guard = Guard(secret="right", minutes=10, clock=clock)
    cookie = guard.begin("right")
    for minute in (9, 18, 27):
        clock.now = minute * 60.0
        assert guard.session_of(cookie) is not None
    clock.now = 37.1 * 60
    assert guard.session_of(cookie) is None
    clock.now = 0.0
    assert guard.session_of(cookie) is None, "what has ended does not begin again"


def test_after_five_wrong_secrets_the_right_one_waits_for_a_minute() -> None:
    clock = Clock()
    guard = Guard(secret="right", clock=clock)
    assert [guard.begin(f"wrong {n}") for n in range(5)] == [None] * 5
    assert guard.is_closed()
    assert guard.begin("right") is None
    clock.now = 60.1
    assert guard.begin("right") is not None


def test_sessions_have_secrets_of_their_own() -> None:
    guard = Guard(secret="right")
    one, other = guard.begin("right"), guard.begin("right")
    assert one != other
    first, second = guard.session_of(one), guard.session_of(other)
    assert first is not None
    assert second is not None
    assert first.csrf != second.csrf
    guard.end(one)
    assert guard.session_of(one) is None
    assert guard.session_of(other) is not None
    assert guard.session_of("") is guard.session_of(None) is None
    assert guard.begin("") is None


def test_nobody_gets_in_by_a_secret_where_a_proxy_says_who_asks() -> None:
    guard = Guard(kind="proxy", proxy_header="X-User")
    assert guard.begin("") is None
    mia, tom = guard.session_of_proxy("mia"), guard.session_of_proxy("tom")
    assert guard.session_of_proxy("mia") is mia
    assert mia.csrf != tom.csrf
    assert guard.session_of("proxy mia") is None, "no cookie stands for whom a proxy has named"


def test_a_proxy_is_known_by_its_address_however_that_is_written() -> None:
    guard = Guard(kind="proxy", proxy_header="X-User")
    assert all(guard.takes_from(each) for each in ("127.0.0.1", "::1", "::ffff:127.0.0.1"))
    assert not any(guard.takes_from(each) for each in ("10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0"))
    assert Guard(secret="right").takes_from("10.0.0.1")
