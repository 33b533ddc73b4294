"""How arrays enter, leave and are waited for in each framework; one file each."""

CONTRACT = (
    "place",
    "marks",
    "numpy",
    "bits",
    "swapped",
    "expanded",
    "tiled",
    "overwrite",
    "is_array",
    "dtype_name",
    "layouts",
    "poisoned",
    "gradients",
    "synchronize",
    "empty_cache",
    "out_of_memory",
    "device_lost",
)
