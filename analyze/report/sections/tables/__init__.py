"""How the sections are shown that are one table on the page: `roots`, `categories`, `sums`."""
