"""A client of the daemon's HTTP port that can also be a bad one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from prometheus_client.openmetrics.parser import text_string_to_metric_families

OPEN_METRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass(frozen=True, slots=True)
class Told:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:
        """Its body, parsed."""
        return json.loads(self.body)


async def connected(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the server at this address."""
    parts = urlsplit(url)
    return await asyncio.open_connection(parts.hostname, parts.port)


async def ask(url: str, path: str, *, method: str = "GET", **headers: str) -> Told:
    """What a well-behaved client is told."""
    lines = [
        f"{method} {path} HTTP/1.1",
        *(f"{k}: {v}" for k, v in ({"Host": urlsplit(url).netloc} | headers).items()),
    ]
    return await send(url, "\r\n".join([*lines, "", ""]).encode())


async def send(url: str, request: bytes) -> Told:
    """What comes back for these bytes."""
    reader, writer = await connected(url)
    try:
        writer.write(request)
        answer = (await reader.read()).decode()
    finally:
        writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return Told(int(first.split(" ")[1]), headers, body)


async def answering(url: str, path: str, status: int, *, saying: str = "") -> Told:
    """What is told once this is the answer's status, and its body contains that."""
    async with asyncio.timeout(60):
        while (told := await ask(url, path, **OPEN_METRICS)).status != status or saying not in told.body:
            await asyncio.sleep(0.02)
    return told


async def scrape(url: str) -> Samples:
    """The samples of /metrics, read by the parser of prometheus_client."""
    told = await ask(url, "/metrics", **OPEN_METRICS)
    assert told.status == 200, told
    return samples_of(told.body)


def samples_of(text: str) -> Samples:
    """Value by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
    }


def described(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Type and labels of each metric, under the name that it has in queries."""
    suffixes = {"counter": "_total", "info": "_info"}
    return {
        family.name + suffixes.get(family.type, ""): (
            family.type,
            frozenset(name for sample in family.samples for name in sample.labels) - {"le"},
        )
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    """Of one sample."""
    return samples[name, frozenset(labels.items())]
