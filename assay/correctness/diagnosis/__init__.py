"""From a failed case to its likely cause in words."""
