"""Feed the kernel: batch (files to windows), live (streams of a log), repair (late events)."""
