"""Tools for agents over the Model Context Protocol: `flowdiff mcp` on standard streams, `/mcp` in the server.

tools    what can be asked, as functions that answer in Markdown: the words and ids of reports
budget   bound of an answer
server   the SDK's server around them; imported late, as the SDK is an extra of its own
"""
