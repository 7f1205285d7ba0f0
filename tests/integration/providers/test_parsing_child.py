"""The child process in which files are read: what it may do, and what happens when it fails."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

from plugins.documents.parsing import parser as module
from plugins.documents.parsing.parser import ChildParser
from plugins.files.local import UnreadableFileError
from plugins.files.process import command_of
from tests.support.content.documents import pdf
from tests.support.repository import ROOT

SLOW = b"<p>word</p>" * 400_000
"""A page that takes many seconds, and much memory."""
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel of Linux keeps this")

ANSWERING = """
import json, os, struct, sys
source = sys.stdin.buffer
_, head, body = struct.unpack("!4sIQ", source.read(16))
request = source.read(head)
source.read(body)
def answer(head, text, mark=b"mdp1", length=None):
    head = head if isinstance(head, bytes) else json.dumps(head).encode()
    sys.stdout.buffer.write(struct.pack("!4sIQ", mark, len(head), len(text) if length is None else length) + head + text)
    sys.stdout.buffer.flush()
READ = {"title": None, "document_type": "html", "metadata": {}}
"""


def _answering(code: str) -> list[str]:
    """A child that reads one file and then does this."""
    return [sys.executable, "-I", "-S", "-c", ANSWERING + textwrap.dedent(code)]


@asynccontextmanager
async def _opened(parser: ChildParser) -> AsyncIterator[ChildParser]:
    try:
        yield parser
    finally:
        await parser.close()


OF_OTHER_TESTS: set[psutil.Process] = set()
"""Children that other tests of this process share: what daemons are forked from, and the driver of a browser."""


def _left(but: str = "") -> list[psutil.Process]:
    """The children of this process but those in a state, without those of other tests."""
    left = []
    for each in set(psutil.Process().children()) - OF_OTHER_TESTS:
        with suppress(psutil.NoSuchProcess):  # it may end, and be waited for, while this looks at it
            if each.status() != but:
                left.append(each)
    return left


def _children() -> list[psutil.Process]:
    return _left(but=psutil.STATUS_ZOMBIE)


async def _child() -> psutil.Process:
    """The only child of this process, as soon as it has one."""
    while not (found := _children()):
        await asyncio.sleep(0.005)
    (child,) = found
    return child


@pytest.fixture
async def nothing_left() -> AsyncIterator[None]:
    """Afterwards this process has no child and no file more than before; the event loop has opened its own files by then."""
    before = psutil.Process().num_fds()
    OF_OTHER_TESTS.clear()
    OF_OTHER_TESTS.update(psutil.Process().children())
    yield
    assert not _left()
    assert psutil.Process().num_fds() <= before + 1  # the event loop's own pipe to a thread that waits


@pytest.mark.usefixtures("nothing_left")
async def test_one_child_reads_many_files() -> None:
    async with _opened(ChildParser()) as parser:
        await parser.parse(b"<p>0</p>", "a.html")
        first = (await _child()).pid
        for number in range(5):
            await parser.parse(b"<p>%d</p>" % number, "a.html")
        assert (await _child()).pid == first


@pytest.mark.usefixtures("nothing_left")
async def test_small_plain_files_need_no_child() -> None:
    async with _opened(ChildParser(command=["/does/not/exist"])) as parser:
        for name in ("a.md", "a.txt", "a.csv", "a.json"):
            await parser.parse(b"1", name)
        with pytest.raises(OSError, match="/does/not/exist"):
            await parser.parse(b"<p>1</p>", "a.html")


@pytest.mark.usefixtures("nothing_left")
async def test_a_file_that_takes_too_long_is_ended() -> None:
    async with _opened(ChildParser(seconds=1.0)) as parser:
        with pytest.raises(UnreadableFileError, match=r"longer than 1 seconds"):
            await parser.parse(SLOW, "a.html")
        assert (await parser.parse(b"<p>next</p>", "a.html")).text == "next"


@pytest.mark.usefixtures("nothing_left")
async def test_a_child_that_never_answers_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPARE_SECONDS", 0.2)
    async with _opened(ChildParser(seconds=0.1, command=_answering("import time; time.sleep(60)"))) as parser:
        with pytest.raises(UnreadableFileError, match=r"longer than 0\.1 seconds"):
            await parser.parse(b"<p>1</p>", "a.html")


@LINUX
@pytest.mark.usefixtures("nothing_left")
async def test_a_file_that_takes_too_much_memory_is_refused() -> None:
    async with _opened(ChildParser(memory_bytes=40_000_000)) as parser:
        with pytest.raises(UnreadableFileError, match="more than 40 MB of memory"):
            await parser.parse(SLOW, "a.html")
        assert (await parser.parse(b"<p>next</p>", "a.html")).text == "next"


@pytest.mark.usefixtures("nothing_left")
async def test_a_child_that_is_killed_at_work_makes_the_file_unreadable() -> None:
    async with _opened(ChildParser()) as parser:
        reading = asyncio.create_task(parser.parse(SLOW, "a.html"))
        (await _child()).send_signal(signal.SIGKILL)
        with pytest.raises(UnreadableFileError, match="broke off at this one"):
            await reading
        assert (await parser.parse(b"<p>next</p>", "a.html")).text == "next"


@pytest.mark.usefixtures("nothing_left")
async def test_a_child_that_died_between_two_files_is_replaced() -> None:
    async with _opened(ChildParser()) as parser:
        for _ in range(3):
            assert (await parser.parse(b"<p>1</p>", "a.html")).text == "1"
            (await _child()).send_signal(signal.SIGKILL)


@pytest.mark.parametrize(
    "code",
    [
        "sys.exit(0)",
        "os.abort()",
        "print('garbage' * 1000)",
        "answer(READ, b'', mark=b'none')",
        "answer(READ, b'x', length=2**60)",
        "answer(READ, b'x', length=5)",
        "answer(READ, b'\\xff\\xfe')",
        "answer(b'no json', b'x')",
        "answer([], b'x')",
        "answer({'title': 5}, b'x')",
        "answer(b'[' * 900_000, b'x')",
    ],
)
@pytest.mark.usefixtures("nothing_left")
async def test_a_child_that_talks_garbage_makes_the_file_unreadable(code: str) -> None:
    async with _opened(ChildParser(command=_answering(code))) as parser:
        with pytest.raises(UnreadableFileError, match="broke off at this one"):
            await parser.parse(b"<p>1</p>", "a.html")


@pytest.mark.usefixtures("nothing_left")
async def test_a_child_that_does_not_listen_makes_the_file_unreadable() -> None:
    async with _opened(ChildParser(command=[sys.executable, "-I", "-S", "-c", ""])) as parser:
        with pytest.raises(UnreadableFileError, match="broke off at this one"):
            await parser.parse(SLOW, "a.html")


@pytest.mark.usefixtures("nothing_left")
async def test_cancelling_ends_the_child() -> None:
    async with _opened(ChildParser()) as parser:
        for wait in (_child, _nothing):
            reading = asyncio.create_task(parser.parse(SLOW, "a.html"))
            await wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert not _children()


async def _nothing() -> None:
    """Lets others begin, but no more."""
    await asyncio.sleep(0)


@pytest.mark.usefixtures("nothing_left")
async def test_two_files_are_read_at_once_and_more_wait() -> None:
    async with _opened(ChildParser(children=2)) as parser:
        contents = [f"<p>{n}</p>".encode() * 2_000 for n in range(8)]
        parsed = await asyncio.gather(*(parser.parse(each, "a.html") for each in contents))
        assert [each.text[0] for each in parsed] == list("01234567")
        assert len(_children()) == 2


async def test_a_child_has_no_file_no_variable_and_no_folder_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORYD_OPENAI_API_KEY", "secret")
    code = """
    files = [os.path.realpath(f"/dev/fd/{n}") for n in os.listdir("/dev/fd")]
    answer(READ, json.dumps([dict(os.environ), os.getcwd(), os.listdir(), files]).encode())
    """
    with (tmp_path / "open").open("wb") as file:
        os.set_inheritable(file.fileno(), True)
        async with _opened(ChildParser(command=_answering(code))) as parser:
            environment, folder, inside, files = json.loads((await parser.parse(b"<p>1</p>", "a.html")).text)
            assert inside == []
    assert await asyncio.to_thread(_missing, folder)
    assert str(tmp_path / "open") not in files
    assert set(environment) <= {
        "LC_ALL", "MALLOC_ARENA_MAX", "RAYON_NUM_THREADS", "TOKIO_WORKER_THREADS",
        "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LC_CTYPE",
    }  # fmt: skip


def _missing(folder: str) -> bool:
    return not Path(folder).exists()


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('127.0.0.1', 9), timeout=1)",
        "import socket; socket.getaddrinfo('localhost', 80)",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true')",
        "import os; os.fork()",
        "open('x', 'w').write('x' * 100_000)",
    ],
)
def test_a_child_opens_no_connection_starts_no_program_and_writes_no_file(code: str, tmp_path: Path) -> None:
    confined = f"from plugins.files.child import confine; confine()\n{code}\nprint('done')"
    ended = subprocess.run(
        [sys.executable, "-c", confined],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "done" not in ended.stdout
    assert "is not allowed where files are read" in ended.stderr or "File too large" in ended.stderr


@LINUX
def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    code = """
    import asyncio, os, psutil, signal
    from plugins.documents.parsing.parser import ChildParser
    async def main():
        parser = ChildParser()
        await parser.parse(b"<p>1</p>", "a.html")
        (child,) = psutil.Process().children()
        reading = asyncio.create_task(parser.parse(b"<p>word</p>" * 400_000, "a.html"))
        idle = child.cpu_times().user
        while child.cpu_times().user < idle + 0.05:
            await asyncio.sleep(0.005)
        print(child.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    asyncio.run(main())
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    _gone(int(ended.stdout))
    assert not [each for each in tmp_path.iterdir() if each.name.startswith("memoryd")]


def _gone(pid: int) -> None:
    """Waits until the process has ended."""
    try:
        psutil.Process(pid).wait(timeout=20)
    except psutil.NoSuchProcess:
        return


def test_a_child_whose_input_ends_goes_and_takes_its_folder_along(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    ended = subprocess.run(
        command_of("plugins.documents.parsing.reading"),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=True,
    )
    assert ended.returncode == 0
    assert not folder.exists()


@pytest.mark.usefixtures("nothing_left")
async def test_idle_children_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    async with _opened(ChildParser()) as parser:
        await parser.parse(pdf([["hello"]]), "a.pdf")
        while _children():
            await asyncio.sleep(0.005)
        assert (await parser.parse(pdf([["again"]]), "a.pdf")).text == "again"


@LINUX
@pytest.mark.usefixtures("nothing_left")
async def test_a_busy_machine_rejects_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPARE_SECONDS", 0.3)
    # It works, sleeps, and works, as one that gets the processor now and then: by the clock far longer than it may take.
    code = """
        import time
        for _ in range(8):
            begun = time.process_time()
            while time.process_time() - begun < 0.03: pass
            time.sleep(0.1)
        answer(READ, b"at last")
    """
    async with _opened(ChildParser(seconds=0.5, command=_answering(code))) as parser:
        assert (await parser.parse(b"<p>1</p>", "a.html")).text == "at last"


@pytest.mark.usefixtures("nothing_left")
async def test_what_takes_too_long_once_is_tried_again_with_more_time() -> None:
    code = """
        import signal
        seconds = json.loads(request)["seconds"]
        if seconds == 1.0:
            os.kill(os.getpid(), signal.SIGPROF)
        answer(READ, str(seconds).encode())
    """
    async with _opened(ChildParser(seconds=1.0, command=_answering(code))) as parser:
        assert (await parser.parse(b"<p>1</p>", "a.html")).text == "2.0"
