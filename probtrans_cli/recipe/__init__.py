"""A recipe: everything that determines a run. Nothing in this room imports torch."""
