"""Request-flow graphs: placed nodes, templates, category keys, canonical text, folding of loops."""
