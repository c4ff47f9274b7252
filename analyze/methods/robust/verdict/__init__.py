"""Decide whether anything changed, and with which confidence."""
