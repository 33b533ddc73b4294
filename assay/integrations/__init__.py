"""Other people's libraries: our caches and attention functions where their models look for them."""
