"""Work that is cut into tasks, and processes of this machine that run them."""
