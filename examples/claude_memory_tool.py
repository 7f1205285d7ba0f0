"""Claude's memory tool, with its files kept in the database. It needs `pip install './clients/python[anthropic]'`.

Run: python examples/claude_memory_tool.py
"""

import os

from memoryd_client.anthropic import MemorydMemoryTool

url = os.environ["DATABASE_URL"]

memory = MemorydMemoryTool(url, agent="helper", user="mia")
runner_tools = [memory]  # for client.beta.messages.run_tools(tools=runner_tools, ...)
memory.call({"command": "create", "path": "/memories/diet.md", "file_text": "No peanuts\n"})
memory.call({"command": "insert", "path": "/memories/diet.md", "insert_line": 1, "insert_text": "No cashews"})
shown = memory.call({"command": "view", "path": "/memories/diet.md"})
memory.close()

print(shown)

# Output:
# Here's the content of /memories/diet.md with line numbers:
#      1	No peanuts
#      2	No cashews
#      3...
