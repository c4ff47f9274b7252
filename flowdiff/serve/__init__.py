"""Serve a lake as pages: `flowdiff serve`.

    server     a port, connections, an orderly end (uvicorn)
    app        routes, guards and metrics put together (Starlette)
    routes     table of all pages: address, parameters, role, function
    pages/     one page per file: reads the site, returns an `Answer`
    site       what pages read: the lake's state, window rows, queries, jobs
    shell      an answer as HTML or JSON

A page is blocks of a report (`analyze.report.blocks`) in a shell; there is no second renderer. A page's
function is synchronous and runs in a thread; whatever computes long runs in a process of its own.
"""
