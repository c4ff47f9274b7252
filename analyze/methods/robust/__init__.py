"""Say what changed between two samples, each cause once.

Read in the order of a run (`robust_run`): `sites_seen` cuts what the profile has of each call site by blocks
of time; `measures` lists what is tested there, `testing` tests it; `confounders` take away what the recording
or the load explains; `causes` relate the rest until each cause stands for what follows from it; `verdict`
judges the periods as wholes; `sections` show it in a report. Every number that decides is in `settings`.

Words of the code: a *site* is a call site, a *pattern* a call pattern, a *vote* the one value that a request
has at a site. *Ordinary* times are the baseline (the reference, and the history where there is one), cut
into *blocks* that show the noise; where they are pieces of one short stretch, *noise is assumed*. A *change*
is what a measure found significant at a site, a *symptom* all that changed in one way at one operation; a
symptom that follows from no other is a *cause*, and becomes a finding.
"""
