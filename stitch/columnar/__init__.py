"""Operations on whole columns: chunks, runs, dictionaries, hashes."""
