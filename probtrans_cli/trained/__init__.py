"""A trained model and what it says: its scores, trees, predictions and latent labels."""
