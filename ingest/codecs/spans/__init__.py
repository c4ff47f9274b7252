"""What all codecs of spans share: one batch of spans, and how it becomes events."""
