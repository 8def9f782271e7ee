"""Encoded corpora: how they are made, stored and cut into batches."""
