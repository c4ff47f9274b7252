"""Request-flow graphs: placed nodes, templates, category keys, canonical text, loops."""
