"""From changes at sites to a few findings (ALGORITHMS L.7, J.6)."""
