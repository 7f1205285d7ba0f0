"""claude-mem: its SQLite, ~/.claude-mem/claude-mem.db."""

from __future__ import annotations

from typing import Any

from plugins.move_in.importers.items import Items, Memory, Message, digest, first, listed

SQLITE = {
    "observations": "select * from observations order by created_at_epoch, id",
    "session_summaries": "select * from session_summaries order by created_at_epoch, id",
    "user_prompts": """
select p.*, s.project from user_prompts p left join sdk_sessions s on s.content_session_id = p.content_session_id
order by p.content_session_id, p.prompt_number, p.id
""",
}
SUMMARY = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def items(section: str, record: dict[str, Any]) -> Items:
    """Observations and summaries become memories of their project, prompts a conversation for each session."""
    at = first(record, "created_at_epoch", "created_at")
    # Its ids count from 1 in each file: session and time are the same wherever the row is.
    session = first(record, "memory_session_id", "content_session_id")
    project = record.get("project")
    if section == "user_prompts":
        yield Message(
            id=digest(session, record["prompt_number"], at), conversation=str(session), role="user",
            text=record["prompt_text"], created_at=at, metadata={"project": project},
        )  # fmt: skip
        return
    if section == "observations":
        lines = [record.get(k) for k in ("title", "subtitle", "narrative", "text")] + [
            f"- {fact}" for fact in listed(record.get("facts")) if isinstance(fact, str)
        ]
        kept: tuple[str, ...] = ("type", "concepts", "files_read", "files_modified")
    else:
        lines = [f"{k.replace('_', ' ')}: {record[k]}" if record.get(k) else None for k in SUMMARY]
        kept = ("files_read", "files_edited")
    yield Memory(
        id=digest(section, session, at, *lines),
        text="\n".join(line for line in dict.fromkeys(lines) if isinstance(line, str) and line.strip()),
        kind="observation" if section == "observations" else "outcome",
        created_at=at,
        project=project,
        metadata={"session": session, **{k: listed(record.get(k)) or record.get(k) for k in kept}},
    )
