"""How much memory a call needs above its inputs: measured, and explained tensor by tensor."""
