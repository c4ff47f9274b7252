"""Explain what separates affected requests from others, and problem from reference.

In the order of the work: requests are chosen and sampled (`chosen_requests`); what is known of them becomes
columns, of the request (`columns`) and of the parameters that its operations recorded (`parameters`); those
that may be compared make a table of two classes (`table`). Its columns are coded as small integers
(`coded_columns`), and a tree that must beat shuffled labels at every node parts the classes (`tree`); it is
read as rules in words (`rules`). `attribute_table` says of each column alone how unlike it is, and
`explanation` puts all together and says whether it can be relied on.
"""
