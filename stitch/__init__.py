"""Records to flows to lake: the kernel, the lake writer, the drivers."""
