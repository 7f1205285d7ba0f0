"""The command that coding agents (Claude Code, Codex, Cursor) run at each of their events: `memoryd hook EVENT`.

Nothing here imports another part of memoryd, or a package: a host waits for each call.
"""
