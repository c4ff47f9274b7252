"""Explain the difference between affected requests and others, and between problem and reference.

Steps: requests are chosen and sampled (`chosen_requests`). Their attributes become columns: properties of the
request as a whole (`columns`), and parameters that operations recorded (`parameters`). Columns that can be
compared make a table of two classes of requests (`table`). Columns are coded as small integers
(`coded_columns`). A decision tree separates the classes (`tree`); each of its splits must gain more than
splits under shuffled labels. Paths of the tree are worded as rules (`rules`). `attribute_table` compares the
classes in each column alone. `explanation` combines all results and decides if they are reliable.
"""
