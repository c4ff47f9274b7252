"""Explain what separates affected requests from others, and problem from reference.

Requests are chosen (`chosen_requests`), their attributes become columns (`parameter_columns`,
`request_columns`, `feature_table`), and a tree that must first beat shuffled labels says which of them part
the classes (`explanation`).
"""
