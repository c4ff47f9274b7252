"""What every layer above needs of Arrow and numpy: chunks, runs, words as numbers, hashes."""
