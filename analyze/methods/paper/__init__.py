"""Method "paper": Spectroscope as published: mutations, precursors and their ranking."""
