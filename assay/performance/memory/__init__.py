"""Memory of a call above its inputs: measured, and explained tensor by tensor."""
