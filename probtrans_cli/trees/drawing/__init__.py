"""Pictures of trees: terminal, SVG, LaTeX, HTML, displaCy."""
