"""What numbers say: intervals of scores, and whether probabilities can be relied on. Imports no torch."""
