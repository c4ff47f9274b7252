"""Analysis methods behind one port (`port`), one folder per method.

Papers cited in docstrings (docs/internals/papers.md): NSDI and TR, Spectroscope (NSDI 2011; technical report
CMU-PDL-10-107 of 2010); HotAC 2007, its first version; DISTALYZER (NSDI 2012); VarianceFinder (2012).
"""
