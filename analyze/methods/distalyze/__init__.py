"""Method "distalyze": find variables that diverge between two classes of instances and on which the response
time depends (DISTALYZER)."""
