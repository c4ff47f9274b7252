"""Files of the page of a browsed period: the range chooser with its script, and the style."""
