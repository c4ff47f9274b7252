"""Method "clusters": cluster requests by K-means, as the Spectroscope of 2007 did, and compare the
clusters."""
