#!/bin/sh
# Takes in what mem0 remembers of its users; the same export again adds nothing. Other systems: docs/importing.md
# Run: sh examples/import_from_mem0.sh
set -eu
file=$(mktemp -d)/mem0.json

# What `json.dump(memory.get_all(user_id="mia"), file)` has written:
cat > "$file" <<'JSON'
{"results": [{"id": "6b7a3a52-0000-4000-8000-0000000000e1", "memory": "Mia likes herons", "user_id": "mia-of-mem0",
              "created_at": "2026-03-01T02:00:00-08:00"}]}
JSON

memoryd import "$file" --from mem0 --dry-run
memoryd import "$file" --from mem0

memoryd recall "which birds does Mia like?" --user mia-of-mem0

# Output:
# would be taken  there already  what
#              1              0  memories
#              0              0  conversations
#              0              0  messages
#              0              0  commands
# user id here                          user there
# 3ad8cd9c-4322-55c9-8688-6ab903bdd127  mia-of-mem0
# taken  there already  what
#     1              0  memories
#     0              0  conversations
#     0              0  messages
#     0              0  commands
# user id here                          user there
# 3ad8cd9c-4322-55c9-8688-6ab903bdd127  mia-of-mem0
# score  similarity  kind ... content
# ... memory/fact ... Mia likes herons
