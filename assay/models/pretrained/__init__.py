"""Causal language models: from GGUF files, through transformers, or with random weights."""
