"""Refine stored structures by what the whole population shows, for the samples at hand.

The kernel looks at one request at a time; decisions that take many requests are made here. One idea a file:

* `stored`: all requests of a structure as one matrix, nodes by requests.
* `name_folding`: names with ids would give each request a structure of its own; differing parts become `#`.
* `messages`: no request waits for the work that a message starts, so it becomes a request of its own.
* `clocks` (S3): a call lies inside its caller's span, so calls bound the offset between two clocks.
* `structure_nodes`, `span_trees`: nodes of all structures, and the trees of spans behind them, which the next
  steps prune.
* `consensus`: votes of requests on yes-no questions, pooled over all structures.
* `asynchrony` (S7): a child that outlives its parent in most calls was not waited for.
* `sibling_order` (S5): calls of one parent are sequential where nearly all requests agree.
* `hosts`: which components carry their host in the name.
* `drafts` (S6): the resulting graphs; requests of one structure may get several.
* `graphs`: nodes in canonical order, equal graphs merged to a category, times consistent with the graph.

`pipeline` calls them in turn.
"""
