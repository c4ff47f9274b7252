"""Build windows from the logs of a lake that ingests live, into the same lake or another one."""
