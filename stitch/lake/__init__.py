"""Keep a lake, in a folder or a bucket: Parquet by window, and commits that list its files.

`chain` and `lane` write commits, `manifest` reads them; `place` opens a folder or a bucket. Statistics, late
events, dead letters, reports and the files of the watch lie beside the flows. Everything that reads or writes
a lake goes through here. Raises LakeError (CommitTakenError: another writer was first; UncertainError: it may
have been written), OSError.
"""
