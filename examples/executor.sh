#!/bin/sh
# An executor in shell: psql is all it needs. It does the commands that are ready and ends, as cron would start it.
# Run: sh examples/executor.sh
set -eu
ask() { psql "$DATABASE_URL" -qAtX "$@"; }

ask -c "insert into agent_commands (agent_id, message) values ('counter', 'count these four words')"
ask -c "select wait_until_idle()"

while id=$(ask -c "select id from claim_command('counter')") && [ -n "$id" ]; do
    message=$(ask -c "select message from agent_commands where id = '$id'")
    code=0
    output=$(printf %s "$message" | wc -w 2>&1) || code=$?
    echo "select complete_command(:'id', :'output', :'code')" | ask -v id="$id" -v output="$output" -v code="$code"
done

ask -c "select status, output from agent_commands where agent_id = 'counter'"

# Output:
# t
# completed|4
