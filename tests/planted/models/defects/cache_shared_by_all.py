"""A GPT-2 in einsum that makes its store once and empties it when a text begins.

Re-enacts one store for all: of two texts that are decoded in turn the second overwrites the first.
"""

BASE = "store_preallocated"
REPLACE = {
    "        return KeyValueStore(self.config, batch, self.E)\n": """\
        if getattr(self, "store_batch", None) != batch:
            self.store, self.store_batch = KeyValueStore(self.config, batch, self.E), batch
        self.store.length = 0
        return self.store
""",
}
PLANTED = "every text is given the same cache"
CAUGHT_BY = ("cached",)
CAUSE = ("full pass", "wanted them for every position")
