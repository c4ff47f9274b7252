"""Long work of the server: one process a question, a bounded queue, results kept by content.

question   periods, filters and method, resolved to absolute times, with an identity
process    the child: analyses, tells its steps, writes a report's JSON
queue      waiting, running and finished jobs; limits of time and number; cancelling
results    reports of finished jobs, in files, the oldest give way
"""
