"""Say what changed between two samples, each cause once.

Read in the order of a run (`robust_run`):

* A `Comparison` is what is compared: requests, their profile, what part each slot of time plays (`roles`).
* `confounders` take themselves out of it where they can: an old name, a window with an incident of its own.
* A `View` has the profile's call sites, before, after and in ordinary times. Each row of MEASURES
  (`measures`) makes an `Estimate` of one thing at every site: the values, their errors, what ordinary times
  held (`sites_seen`: of all sites, shard by shard where they do not fit into memory).
* `testing` makes of estimates the changes that count; `confounders` explain some of them away.
* `causes` bundle the rest to symptoms (`symptoms`), relate them (`relations`) until each cause stands for
  what follows from it (`resolve`), and give each its part of the change of the mean (`contributions`).
* `verdict` judges the periods as wholes: by sums over blocks of time (`period_blocks`), and by what may have
  changed unseen at the call sites (`site_times`).
* `segments` tests requests by the value of an attribute, over many operations; `suspects` are the places to
  look at where nothing is found.
* `method` puts the report together; `sections` fill and show its parts, `titles` has the sentences, and
  `affected_requests` finds whom a change is about.

The registry of methods finds `method.METHOD`; nothing else imports this package. Raises ConfigError for an
unknown rule, PeriodError for periods without a request. Every number that decides is in `settings`.

Words of the code: a *site* is a call site, a *pattern* a call pattern, a *vote* the one value that a request
has at a site. *Ordinary* times are the baseline (the reference, and the history where there is one), cut
into *blocks* that show the noise; where they are pieces of one short stretch, *noise is assumed*. A *change*
is what a measure found significant at a site, a *symptom* all that changed in one way at one operation; a
symptom that follows from no other is a *cause*, and becomes a finding.
"""
