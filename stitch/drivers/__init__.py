"""Drivers feed the kernel: batch (files to windows); live and spark come later."""
