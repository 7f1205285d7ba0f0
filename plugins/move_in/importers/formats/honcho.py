"""Honcho: the peers of a workspace, their messages, and what was concluded of them, as the models of its client."""

from __future__ import annotations

from typing import Any

from plugins.move_in.importers.items import Items, Memory, Message, Omission, UnknownFormError, mapping

NO_PEERS = "no peer that is known stands before it: write peers, messages, conclusions, in this order"
NO_PERSON = "only agents had spoken in its session, and the file has several persons"


def items(section: str, record: Any, told: dict[str, Any]) -> Items:
    """A message or a conclusion. `told`: which peers are agents, who are persons, and whose each session is.

    A peer that Honcho does not observe is an agent. A session belongs to the first person in it, and what was concluded of an
    agent to the person who concluded it.
    """
    agents, persons = told.setdefault("agents", set()), told.setdefault("persons", set())
    sessions = told.setdefault("sessions", {})
    if section == "peers":
        is_agent = mapping(record.get("configuration")).get("observe_me") is False
        (agents if is_agent else persons).add(record["id"])
    elif section not in {"messages", "conclusions"}:
        raise UnknownFormError
    elif not agents and not persons:
        yield Omission(section, NO_PEERS)
    elif section == "messages":
        speaker, session = record["peer_id"], record["session_id"]
        if speaker not in agents:
            sessions.setdefault(session, speaker)
        owner = sessions.get(session) or (next(iter(persons)) if len(persons) == 1 else None)
        if owner is None:
            yield Omission("message", NO_PERSON)
            return
        yield Message(
            id=str(record["id"]), conversation=str(session), owner=owner, speaker=speaker, text=record["content"],
            role="assistant" if speaker in agents else "user", created_at=record.get("created_at"),
            metadata=mapping(record.get("metadata")),
        )  # fmt: skip
    else:
        both = (record["observed_id"], record.get("observer_id"))
        yield Memory(
            id=str(record["id"]), text=record["content"], kind="fact" if record.get("level") == "explicit" else "observation",
            owner=next((peer for peer in both if peer not in agents), None),
            agent=next((peer for peer in reversed(both) if peer in agents), None), created_at=record.get("created_at"),
            metadata={k: record.get(k) for k in ("level", "session_id", "times_derived", "observed_id")},
        )  # fmt: skip
