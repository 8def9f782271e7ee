"""The training loop and all that only a training needs."""
