"""How sure a comparison is: data quality, tests of whole periods, equivalence, the outcome."""
