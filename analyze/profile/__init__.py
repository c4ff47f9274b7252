"""Profile the call sites of many requests: sums and histograms by slot of time (a window, or a block of
windows), which can be added up.

`profile` is the type; `build` makes one from requests (in `batches`: many graphs at once); `stored` reads it
from `stats/` or writes it there.

`stats/` is a cache: an unreadable file is made again, a failed write is reported. Used by methods, the watch
and `flowdiff summarize`. Raises PeriodError if there is no request, ConfigError for too many slots,
LakeError.
"""
