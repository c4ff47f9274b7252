"""The clustering Spectroscope of 2007: requests grouped by K-means, groups held against each other."""
