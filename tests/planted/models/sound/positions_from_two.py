"""Positions that begin at 2, as in OPT: the first two rows are never used."""

BASE = "attention_written_out"
REPLACE = {
    "config.block_size": "config.block_size + 2",
    "x = self.drop(self.wte(idx) + self.wpe(pos))": (
        "x = self.drop(self.wte(idx) + self.wpe(pos + 2))"
    ),
}
