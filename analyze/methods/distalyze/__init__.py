"""Method "distalyze": compare two classes of requests (e.g. slow and fast), and find the features that differ
and on which the response time depends (DISTALYZER)."""
