"""From changes at sites to a few findings."""
