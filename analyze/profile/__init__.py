"""Profile call sites of many requests: sums and histograms by slot of time (a window, or a block of one),
which add up.

`profile` is the type, `build` makes it of requests (in `batches`, many graphs at once), `stored` reads it
from `stats/` or keeps it there.
`stats/` is a cache: what cannot be read is made again, what cannot be written is reported. Used by methods,
the watch and `flowdiff summarize`. Raises PeriodError without a request, ConfigError for too many slots,
LakeError.
"""
