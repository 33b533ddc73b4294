"""What a cache stores for each token, and what that costs."""
