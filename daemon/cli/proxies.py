"""Proxies that the environment names."""

from __future__ import annotations

from collections.abc import MutableMapping

THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def reach_this_machine_directly(environment: MutableMapping[str, str]) -> None:
    """Makes all libraries for HTTP use no proxy for addresses of this machine: a proxy would look for them on its own."""
    if not any(name.lower().endswith("_proxy") for name in environment):
        return
    told = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if told.strip() != "*":
        told = ",".join([*filter(None, (name.strip() for name in told.split(","))), *THIS_MACHINE])
    environment["no_proxy"] = environment["NO_PROXY"] = told
