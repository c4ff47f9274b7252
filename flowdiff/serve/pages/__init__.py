"""Pages, one a file: a function from the site and what was asked to an `Answer`."""
