"""Order the nodes of request-flow graphs canonically, vectorised over a batch."""
