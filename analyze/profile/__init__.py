"""Profile the call sites of many requests: sums and histograms per slot of time (a window, or a block of
windows), which can be added up over slots.

`profile` defines the type; `build` computes a profile from requests (in `batches`: many graphs at once);
`stored` reads profiles from the lake's `stats/` and writes them there.

`stats/` is a cache: an unreadable file is computed again, a failed write is reported. Used by methods, the
watch and `flowdiff summarize`. Raises PeriodError if there is no request, ConfigError for too many slots,
LakeError if flows cannot be read.
"""
