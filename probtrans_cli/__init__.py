"""probtrans: train, evaluate and read probabilistic transformers (Wu & Tu, Findings of ACL 2023)."""

__version__ = "0.1.0"
