"""The example beside a graph: features of words as the model has them."""
