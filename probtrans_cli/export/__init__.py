"""Models as folders for others."""
