"""What a system does on its own: ordinary times cut into blocks, window statistics kept in the lake."""
