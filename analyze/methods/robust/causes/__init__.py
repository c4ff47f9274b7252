"""Relations between changes at call sites, by which each cause stands for its consequences."""
