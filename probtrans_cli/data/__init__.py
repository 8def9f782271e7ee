"""From the bytes of a corpus to arrays of numbers. Nothing in this room imports torch."""
