"""Records: the only thing that passes from measuring to reporting."""
