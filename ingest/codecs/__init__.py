"""One file a format; each turns payloads into one event batch plus rejects."""
