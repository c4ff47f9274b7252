"""Explain the difference between affected requests and others, and between problem and reference.

Steps: requests are chosen and sampled (`chosen_requests`); their attributes become columns, those of the
request itself (`columns`) and the parameters that its operations recorded (`parameters`); the comparable
columns make a table of two classes (`table`). Columns are coded as small integers (`coded_columns`), and a
decision tree, every split of which must beat shuffled labels, separates the classes (`tree`); its paths are
worded as rules (`rules`). `attribute_table` compares the classes in each column alone, and `explanation`
combines all and decides if it is reliable.
"""
