"""Cluster requests as the Spectroscope of 2007 did, by K-means, and compare the clusters."""
