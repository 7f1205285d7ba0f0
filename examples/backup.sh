#!/bin/sh
# Writes a backup while everything runs, and proves that it can be restored.
# Run: sh examples/backup.sh
set -eu
file=$(mktemp -d)/memories.backup

memoryd backup "$file"
memoryd backup --verify "$file"

# Output:
# ...memories.backup: ... memories, ... rows in ... tables, ...
# A backup counts once it was restored: memoryd backup --verify ...memories.backup
# ...memories.backup can be restored: ... memories, ... The trail is whole, and recall answers.
