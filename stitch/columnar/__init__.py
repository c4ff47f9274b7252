"""Work on whole columns: chunks, runs, words as numbers, hashes."""
