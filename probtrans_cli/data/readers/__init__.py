"""From files to sentences: one file a format."""
