#!/bin/sh
# Takes a folder of files in as documents, and finds the passage that answers a question. Called again, it takes what changed.
# Run: sh examples/ingest_folder.sh
set -eu
folder=$(mktemp -d)/handbook
mkdir "$folder"
cat > "$folder/travel.md" <<'MARKDOWN'
# Travel rules

## Ferries

Ferries are booked by Mr Okafor, two weeks before.
MARKDOWN

memoryd ingest "$folder"
psql "$DATABASE_URL" -qAtXc "select wait_until_idle()"
memoryd recall "who books the ferry?" --source document --relevant-only

# Output:
# files  what became of them
#     1  added
# t
# score  similarity  kind ... content
# ... document/Travel rules ... # Travel rules ## Ferries Ferries are booked by Mr Okafor, two weeks before.
