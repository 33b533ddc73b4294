"""How arrays enter, leave and are waited for in each framework; one file each."""

CONTRACT = ("place", "numpy", "synchronize", "gradients", "empty_cache", "out_of_memory")
