"""A long-term store for LangGraph, for `graph.compile(store=...)`. It needs `pip install './clients/python[langgraph]'`.

Run: python examples/langgraph_store.py
"""

import os

from memoryd_client.langgraph import MemorydStore

url = os.environ["DATABASE_URL"]

with MemorydStore(url, agent="helper", ttl={"default_ttl": 60 * 24 * 30, "refresh_on_read": True}) as store:
    store.put(("users", "mia"), "diet", {"text": "Mia eats no peanuts", "sure": 0.9})
    store.put(("users", "mia"), "token", {"text": "abc"}, index=False)
    found = store.search(("users",), query="what may Mia not eat?", filter={"sure": {"$gte": 0.5}})
    names = store.list_namespaces(prefix=("users", "*"))

print([item.value["text"] for item in found], names)

# Output:
# ['Mia eats no peanuts'] [('users', 'mia')]
