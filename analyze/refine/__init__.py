"""Refine stored structures by what the whole population shows, for the samples at hand.

The kernel looks at one request at a time; what takes many is decided here. One idea a file:

* `stored`: all requests of a structure are one matrix, nodes by requests.
* `name_folding`: names that hold ids would make a structure of every request, so what differs becomes `#`.
* `messages`: what a message starts nobody waits for: it is a request of its own.
* `clocks` (S3): a call lies inside its caller's span, so calls bound how far two clocks are apart.
* `span_tree`: the tree of spans behind a structure, which the next steps shorten.
* `consensus`: questions that every request answers, added up over all structures in which they are asked.
* `asynchrony` (S7): a child that outlives its parent in most calls was not waited for.
* `sibling_order` (S5): calls of one parent run one after the other where nearly all requests say so.
* `hosts`: of which components the host belongs to the name.
* `drafts` (S6): the graphs that come of it; requests of one structure may take several.
* `graphs`: nodes in canonical order, equal graphs as one category, times that fit the graph.

`pipeline` calls them in turn.
"""
