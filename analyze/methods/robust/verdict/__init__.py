"""Verdict on whole periods: decide if anything changed, and with which confidence."""
