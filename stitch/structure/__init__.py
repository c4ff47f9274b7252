"""What is derived once per distinct structure: key, text, loop folding."""
