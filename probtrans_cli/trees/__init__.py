"""From arc scores to trees, and how good they are. Nothing in this room imports torch."""
