"""The daemon's HTTP port: probes and metrics, and clients that do not behave."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import psutil
import pytest
import pytest_asyncio
import yaml

from tests.support.database.schemas import connected
from tests.support.database.servers import Server
from tests.support.database.templates import copied
from tests.support.processes.commands import Commands
from tests.support.processes.daemons import DaemonProcess, Daemons
from tests.support.repository import ROOT
from tests.support.services import http
from tests.support.services.http import ask, scrape, value
from tests.support.waiting import IDLE, beats, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

DREAM = """
insert into dream_sessions (started_by, status, finished_at) values ('manual', 'completed', now() - interval '1 hour')
"""
MONITORING = ROOT / "docs" / "monitoring"
ANN = uuid.uuid4()
OUTCOME = "insert into agent_commands (agent_id, message, output, status) values ('alice', 'deploy', 'deployed', 'completed')"
QUESTION = "insert into memory_requests (kind, query, agent_id, user_id) values ('recall', 'what was deployed', 'alice', $1)"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemons(url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Daemons]:
    """What starts daemons on it."""
    made = Daemons(url, tmp_path_factory.mktemp("http"))
    yield made
    await made.kill_all()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(daemons: Daemons) -> DaemonProcess:
    """One daemon, which looks for work only when it is woken."""
    return await daemons.start(http=0, poll_seconds=3600, heartbeat_seconds=0.2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(daemon: DaemonProcess, db: asyncpg.Connection) -> str:
    """Where its port is. It listens by now, and has asked for what was written before."""
    await until(db, "select bool_and(backend <> 0) from memoryd.daemons")
    await beats(db, times=2)
    return await listening(daemon)


async def listening(daemon: DaemonProcess) -> str:
    """Where the port of this daemon is."""
    told: str = (await daemon.event("http_listening"))["url"]
    return told


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worked(site: str, db: asyncpg.Connection) -> str:
    """What /metrics tells of a daemon that has done some work."""
    await db.execute(DREAM)
    await db.execute(OUTCOME)
    await db.execute(QUESTION, ANN)
    await until(db, IDLE)
    # What the database says is kept for a moment: a test before may have asked for it.
    await http.answering(site, "/metrics", 200, saying="memoryd_dream_age_seconds")
    told = await http.answering(site, "/metrics", 200, saying='{outcome="done",topic="request"} 1.0')
    assert told.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    return told.body


async def test_a_working_daemon_is_live_and_ready_and_tells_its_work(site: str, worked: str) -> None:
    assert (await ask(site, "/health/live")).json == {"status": "live"}
    ready = await ask(site, "/health/ready")
    assert (ready.status, ready.json) == (200, {"status": "ready"})

    assert "alice" not in worked
    assert str(ANN) not in worked
    samples = http.samples_of(worked)
    assert value(samples, "memoryd_database_up") == value(samples, "memoryd_reports_database") == 1
    assert value(samples, "memoryd_jobs_handled_total", topic="capture", outcome="done") == 1
    assert value(samples, "memoryd_job_queue_seconds_count", topic="capture") == 1
    assert value(samples, "memoryd_batch_seconds_count", topic="capture") == 1
    assert value(samples, "memoryd_answer_seconds_count", topic="request") == 1
    assert 0 < value(samples, "memoryd_answer_seconds_sum", topic="request") < 60
    assert value(samples, "memoryd_provider_up", role="embedder", provider="local/wordllama-256") == 1
    assert value(samples, "memoryd_jobs", topic="capture", state="ready") == 0
    assert value(samples, "memoryd_daemons", state="alive") == 1
    assert 3600 <= value(samples, "memoryd_dream_age_seconds") < 7200


async def test_the_metrics_and_their_table_correspond(worked: str) -> None:
    rows = re.findall(
        r"^\| `(memoryd_\w+)` \| (\w+) \|([^|]*)\|",
        (ROOT / "docs/monitoring.md").read_text("utf-8"),
        re.MULTILINE,
    )
    table = {name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    told = {name: one for name, one in http.described(worked).items() if name.startswith("memoryd_")}
    assert table == told


def expressions() -> dict[str, str]:
    """What the dashboard and the alert rules ask Prometheus for, by their titles."""
    dashboard = json.loads((MONITORING / "grafana.json").read_text("utf-8"))
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text("utf-8"))["groups"][0]["rules"]
    shown = {f"{p['title']} {t['refId']}": t["expr"] for p in dashboard["panels"] for t in p["targets"]}
    return shown | {rule["alert"]: rule["expr"] for rule in rules}


async def test_the_dashboard_and_the_alerts_ask_for_metrics_that_there_are(worked: str) -> None:
    asked, told = expressions(), http.samples_of(worked)
    assert len(asked) > 30
    names, pairs = {name for name, _ in told}, {pair for _, labels in told for pair in labels}
    labels = {label for label, _ in pairs} | {"instance", "job"}
    for title, sql in asked.items():
        used = set(re.findall(r"\b(?:memoryd|process)_\w+", sql))
        assert used, title
        assert used <= names, title
        assert set(re.findall(r'(\w+)!?="([^"]*)"', sql)) <= pairs, title
        by = re.findall(r"\b(?:by|on) \(([^)]*)\)", sql)
        assert {label for one in by for label in one.split(", ")} <= labels, title


async def test_what_an_alert_says_names_labels_that_it_has() -> None:
    for rule in yaml.safe_load((MONITORING / "alerts.yaml").read_text("utf-8"))["groups"][0]["rules"]:
        assert set(rule["annotations"]) == {"summary", "action"}
        named = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        kept = {label for one in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in one.split(", ")} - {
            "le"
        }
        assert named <= (kept or {"instance"}), rule["alert"]


async def test_a_scraper_without_open_metrics_is_served_too(site: str) -> None:
    told = await ask(site, "/metrics")
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "\nmemoryd_database_up 1.0\n" in told.body


@pytest.mark.parametrize("lane", [None, "alice"])
async def test_a_daemon_whose_jobs_wait_is_not_ready(
    site: str, db: asyncpg.Connection, lane: str | None
) -> None:
    await db.execute(
        "insert into memoryd.jobs (topic, lane, created_at, visible_at) "
        "values ('associate', $1, now() - interval '2 minutes', now() - interval '2 minutes')",
        lane,
    )
    told = await http.answering(site, "/health/ready", 503)
    assert told.json["status"] == "not ready"
    assert re.match(
        r"a job of topic associate has waited for 1\d\d s; the limit is 60 s", told.json["reason"]
    )
    shown = await http.answering(site, "/metrics", 200, saying='{state="ready",topic="associate"} 1.0')
    samples = http.samples_of(shown.body)
    assert value(samples, "memoryd_oldest_ready_job_seconds", topic="associate") > 120
    assert (await ask(site, "/health/live")).status == 200
    await db.execute("delete from memoryd.jobs")
    await http.answering(site, "/health/ready", 200)


async def test_what_is_no_question_of_ours_is_refused(site: str) -> None:
    missing = await ask(site, "/metrics/../admin")
    assert (missing.status, missing.body) == (404, "There are /health/live, /health/ready and /metrics.\n")
    head = await ask(site, "/health/live?x=1", method="HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, "", "19")
    posted = await ask(site, "/health/live", method="POST", **{"Content-Length": "5"})
    assert (posted.status, posted.headers["allow"]) == (405, "GET, HEAD")
    for host in (
        "evil.example",
        "evil.example:9470",
        "evil@127.0.0.1",
        "127.0.0.1:evil.example",
        "127.0.0.1/",
        "",
        "::1",
    ):
        assert (await ask(site, "/metrics", Host=host)).status == 421
    assert (await ask(site, "/health/live", Host="localhost:9470")).status == 200
    assert (await ask(site, "/health/live", X="x" * 10_000)).status == 431
    assert (await http.send(site, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")).status == 400
    assert (await http.send(site, b"GET\r\n\r\n")).status == 400


async def test_a_client_that_sends_nothing_is_let_go_and_keeps_nobody_waiting(site: str) -> None:
    silent = [await http.connected(site) for _ in range(20)]
    half, writer = await http.connected(site)
    writer.write(b"GET /metrics HTTP/1.1\r\n")
    assert (await ask(site, "/health/live")).status == 200
    assert not any(reader.at_eof() for reader, _ in [*silent, (half, writer)]), (
        "they keep their places meanwhile"
    )
    for reader, _ in [*silent, (half, writer)]:
        assert await reader.read() == b""
    for _, one in [*silent, (half, writer)]:
        one.close()


async def test_a_database_that_hangs_keeps_no_probe_waiting_and_takes_no_more_connections(
    site: str, url: str, db: asyncpg.Connection
) -> None:
    waiting = (
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' "
        "and (query like '%first(lane, made_at)%' or query like '%with counted as%')"
    )
    async with connected(url) as other, other.transaction():
        await other.execute("lock table memoryd.jobs in access exclusive mode")
        not_ready, _ = await asyncio.gather(
            http.answering(site, "/health/ready", 503),
            http.answering(site, "/metrics", 200, saying="memoryd_database_up 0.0"),
        )
        assert not_ready.json["reason"] == "the database has not answered for 2 s"
        await asyncio.gather(*(ask(site, path) for path in ("/metrics", "/health/ready") for _ in range(50)))
        # Where the workers have taken all connections, these two wait for one. The one before may still be on its way out.
        await until(db, f"select ({waiting}) <= 2")
    await http.answering(site, "/health/ready", 200)
    await http.answering(site, "/metrics", 200, saying="memoryd_database_up 1.0")


async def test_hundreds_of_scrapes_at_once_are_one_question_to_the_database(
    site: str, daemon: DaemonProcess
) -> None:
    before = value(await scrape(site), "memoryd_metrics_query_seconds_count")
    process, most = psutil.Process(daemon.process.pid), 0
    began = time.monotonic()
    scrapes = asyncio.gather(*(ask(site, "/metrics") for _ in range(300)))
    while not scrapes.done():
        most = max(most, process.num_fds())
        await asyncio.sleep(0.01)
    assert {told.status for told in await scrapes} == {200}
    seconds = time.monotonic() - began
    samples = await scrape(site)
    assert value(samples, "memoryd_metrics_query_seconds_count") - before <= seconds + 3
    assert value(samples, "memoryd_connections_max") == 10
    assert most < 128 + 100


async def test_a_port_that_is_taken_is_told_once_and_tried_again(
    daemons: Daemons, db: asyncpg.Connection
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        second = await daemons.start(http=port)
        told = await second.event("http_not_listening")
        assert told["reason"] == (
            f"MEMORYD_HTTP names port {port} of 127.0.0.1, which another program listens at (EADDRINUSE). "
            "Name another one, or end that program."
        )
        await until(db, "select true from memoryd.daemons where pid = $1", second.process.pid)
    assert await listening(second) == f"http://127.0.0.1:{port}"
    assert len(second.events("http_not_listening")) == 1
    await second.stop()


def has_ipv6() -> bool:
    """Whether this machine has the other loopback, too."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


async def test_of_two_daemons_one_reports_what_is_the_databases(daemons: Daemons, site: str) -> None:
    second = await daemons.start(http="[::1]:0" if has_ipv6() else 0)
    other = await listening(second)
    first_samples, second_samples = await scrape(site), await scrape(other)
    assert value(first_samples, "memoryd_reports_database") == 1
    assert value(second_samples, "memoryd_reports_database") == 0
    names = {name for name, _ in first_samples} - {name for name, _ in second_samples}
    assert {"memoryd_jobs", "memoryd_rows", "memoryd_dead_letters"} <= names
    assert value(second_samples, "memoryd_database_up") == 1
    await second.stop()


async def test_probes_of_containers_ask_by_a_command(site: str, url: str, tmp_path: Path) -> None:
    memoryd = Commands(url, tmp_path)
    address = site.removeprefix("http://")
    for arguments, status in (("--live",), "live"), (("--ready",), "ready"), ((), "ready"):
        told = await memoryd("health", *arguments, http=address)
        assert (told.code, told.out) == (0, f"{status}\n"), told
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = await memoryd("health", "--live", http=free.getsockname()[1])
    assert nobody.code == 1
    assert nobody.sentences[0].startswith("No daemon answers at 127.0.0.1:")
    unset = await memoryd("health")
    assert unset.code == 2
    assert unset.sentences[0].startswith("MEMORYD_HTTP is not set")


async def test_who_takes_over_reports(server: Server, template: str, tmp_path: Path) -> None:
    # Of a database of their own: the other tests' daemon goes on, in whatever order they run.
    async with copied(server, template) as own:
        daemons = Daemons(own, tmp_path)
        try:
            first = await daemons.start(http=0)
            assert value(await scrape(await listening(first)), "memoryd_reports_database") == 1
            assert await first.stop() == 0
            second = await daemons.start(http=0)
            assert value(await scrape(await listening(second)), "memoryd_reports_database") == 1
        finally:
            await daemons.kill_all()
