"""From words to ids: one file a kind of vocabulary."""
