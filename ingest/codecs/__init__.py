"""Codecs, one folder a format; each decodes payloads to one event batch plus rejects."""
