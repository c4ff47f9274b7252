"""Method "paper": Spectroscope as published, which finds changed categories (mutations), their origins
(precursors), and ranks them."""
