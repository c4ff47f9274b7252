"""Records in: codecs, files, simulator. Bytes to Arrow event batches and rejects."""
