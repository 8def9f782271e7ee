"""From annotations to labels and back."""
