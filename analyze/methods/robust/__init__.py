"""Find what changed between two samples, and report each cause once.

Read in the order of a run (`robust_run`):

* A `Comparison` is the input: requests, their profile, the role of each time slot (`roles`).
* `confounders` adjust it where they can: they undo a renaming, or leave out a window with an incident.
* A `View` has sums by call site: before, after, baseline blocks. Each row of MEASURES (`measures`)
  computes an `Estimate` of one quantity at every site: values, standard errors, values of the blocks.
  `sites_seen` does so for all sites, shard by shard if they do not fit into memory.
* `testing` selects the significant changes; `confounders` explain some of them.
* `causes` groups the other changes into symptoms (`symptoms`), finds which symptoms follow from which
  (`relations`), keeps those that follow from none as causes (`resolve`), and divides the change of the mean
  response time among them (`contributions`).
* `verdict` judges whole periods: by sums over blocks of time (`period_blocks`), and by the largest change
  that may have gone undetected at call sites (`site_times`).
* `segments` tests requests by the value of an attribute, over many operations; `suspects` ranks places to
  look at if there is no finding.
* `method` assembles the report; `sections` fill and show its parts, `titles` words findings, and
  `affected_requests` selects the requests that show a change.

The registry of methods finds `method.METHOD`; nothing else imports this package. Raises ConfigError for an
unknown rule, PeriodError for periods without a request. Every number that decides is in `settings`.

Terms: a *site* is a call site, a *pattern* a call pattern, a *vote* the single value of a request at a site
(the mean over its calls there). *Ordinary* times are the baseline (the reference, and the history if there is
one), cut into *blocks* that show the noise; if these are pieces of one short stretch, *noise is assumed*. A
*change* is a significant result of a measure at a site, a *symptom* the changes of one kind at one operation;
a symptom that follows from no other is a *cause*, and becomes a finding.
"""
