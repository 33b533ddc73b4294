"""Is a model what it says? The gates, and what builds, wakes and calls the models they examine."""
