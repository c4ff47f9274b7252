"""Say what changed between two samples, each cause once.

Read in the order of a run (`robust_run`): `sites_seen` cuts what the profile has of each call site by blocks
of time; `measures` lists what is tested there, `testing` tests it; `confounders` take away what the recording
or the load explains; `causes` relate the rest until each cause stands for what follows from it; `verdict`
judges the periods as wholes; `sections` show it in a report. Every number that decides is in `settings`.
"""
