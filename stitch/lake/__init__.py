"""Store a lake in a folder or a bucket: Parquet files by window, and commits that list them.

`chain` and `lane` write commits, `manifest` reads them; `place` opens a folder or a bucket. Statistics, late
events, dead letters, reports and the files of the watch are stored beside the flows. All code that reads or
writes a lake uses this package. Raises LakeError (CommitTakenError: another writer committed first), OSError
(UncertainError: the file may or may not have been written).
"""
