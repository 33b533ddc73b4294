"""Tokenizers, one file each: how texts become tokens. See train/tokenizer.py.

A file has `make(texts, size)`, which returns a Tokenizer with a vocabulary of `size` tokens, the
end token among them, learnt from an iterator of texts where it learns anything; size 0 is the
file's own choice, and a size that it cannot have is refused. `load(state)` makes one again from
what its `state()` gave.

VERSION is raised when the same texts give other tokens: what was prepared before is then prepared
anew. REQUIRES names packages to be imported.
"""

CONTRACT = ("make", "load")
REQUIRES = ()
VERSION = 1
