"""The clustering Spectroscope of 2007: requests grouped by K-means, groups compared with each other."""
