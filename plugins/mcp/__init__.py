"""The MCP server: what agents remember, as tools and resources for any client of the Model Context Protocol.

Only this package imports the MCP SDK, which is an optional dependency (the extra `mcp`).
"""
