"""Split an import into tasks, and run them in processes of this machine or on several machines."""
