"""Tools for agents over the Model Context Protocol: `flowdiff mcp` on standard streams, `/mcp` in the server.

tools    the tools, as functions that answer in Markdown, with the words and ids of reports
budget   limit on the length of an answer
server   the SDK's server around them; imported late, as the SDK is an extra of its own
"""
