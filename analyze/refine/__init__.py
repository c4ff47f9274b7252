"""Refine stored structures by evidence from all requests of the samples being analyzed.

Stitching looks at one request at a time; decisions that need many requests are made here. One idea per file:

* `stored`: all requests of a structure as one matrix, nodes by requests.
* `name_folding`: names that contain ids would give each request its own structure; ids become `#`.
* `messages`: no request waits for the work that a message starts, so that work becomes a separate request.
* `hosts`: which components carry their host in the name; requests with other hosts become other structures.
* `clocks`: a call lies inside its caller's span, so calls bound the offset between two clocks.
* `structure_nodes`, `span_trees`: nodes of all structures, and the trees of spans that the nodes belong to.
* `consensus`: votes of requests on yes-no questions, pooled over all structures.
* `asynchrony`: a child that outlives its parent in most calls was not waited for.
* `sibling_order`: calls of one parent are sequential where nearly all requests agree.
* `drafts`: the resulting graphs; requests of one structure may get different graphs.
* `graphs`: nodes in canonical order, equal graphs merged into one category, times clipped to fit the graph.

`pipeline` calls them in turn.
"""
