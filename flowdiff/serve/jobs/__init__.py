"""Long work of the server: one process per question, a bounded queue, results stored by content.

question   periods, filters and method, resolved to absolute times, with an identity
process    the child: analyses, reports its steps, writes a report's JSON
queue      waiting, running and finished jobs; limits of time and number; cancellation
results    reports of finished jobs, in files; the oldest are evicted
"""
