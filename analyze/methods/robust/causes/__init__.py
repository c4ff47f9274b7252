"""Find the causes among the changes at call sites: relate each consequence to the change that it follows
from."""
