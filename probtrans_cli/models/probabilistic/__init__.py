"""The probabilistic transformer of Wu & Tu (Findings of ACL 2023)."""
