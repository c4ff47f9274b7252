"""Build windows again that late events belong to, and read damaged segments of a log again."""
