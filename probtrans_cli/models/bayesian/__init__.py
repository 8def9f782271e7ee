"""Transformers whose weights are distributions: Gaussian weights, and their moments through the network."""
