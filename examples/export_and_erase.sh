#!/bin/sh
# Everything about a user leaves as one file, is erased everywhere, and could be put back from the file.
# Run: sh examples/export_and_erase.sh
set -eu
file=$(mktemp -d)/noa.json

psql "$DATABASE_URL" -qAtXc "select what from remember('Noa sails on Sundays', 'guide', '00000000-0000-0000-0000-0000000000aa')"

memoryd export 00000000-0000-0000-0000-0000000000aa --output "$file"
memoryd erase 00000000-0000-0000-0000-0000000000aa --yes
memoryd import "$file"

# Output:
# stored
# 2 rows about user 00000000-0000-0000-0000-0000000000aa in ...noa.json.
# erased  table
#      1  agent_memory
#      2  agent_execution_logs
# imported  skipped  table
#        1        0  agent_memory
#        1        0  agent_execution_logs
