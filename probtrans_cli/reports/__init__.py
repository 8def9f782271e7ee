"""Scores and tables as text for people."""
