"""Files of the page of a browsed period: the range that can be chosen, with its script, and its style."""
