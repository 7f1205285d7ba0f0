#!/bin/sh
# Claude Code remembers from session to session: its hooks are installed, and a prompt comes with what belongs to it.
# Run: sh examples/coding_agent.sh
set -eu
HOME=$(mktemp -d) && export HOME # leave this line out to change your own settings
project=$HOME/project && mkdir "$project" && cd "$project"

memoryd hooks install claude-code --user

# What Claude Code then does by itself, at the end of one session and at a prompt of the next:
hook() { echo "{\"session_id\": \"$2\", \"cwd\": \"$project\", $3}" | memoryd hook "$1" claude-code; }
hook UserPromptSubmit s1 '"prompt": "Let the webhook sender wait longer between tries"'
hook PostToolUse s1 '"tool_name": "Edit", "tool_input": {"file_path": "webhooks.py"}, "tool_response": {"success": true}'
hook Stop s1 '"last_assistant_message": "The sender of webhooks now waits up to 300 seconds between two tries."'
psql "$DATABASE_URL" -qAtXc "select wait_until_idle()"
hook UserPromptSubmit s2 '"prompt": "how long does the webhook sender wait?"'

# Output:
# .../.claude/settings.json names memoryd now.
# Memories are of agent coding, in the database ...
# t
# {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "--- CONTEXT ... Concluded: The sender of webhooks now waits up to 300 seconds between two tries. Done: changed webhooks.py...
