"""A paged cache: tokens of sequences of different lengths in pages of one pool.

Every layer has a pool for each stream, [pages, (heads,) page_size, width]; a page number means the
same page in all of them. `tables` and `lengths` say which pages hold which tokens, as kernels that
read pages take them. A page belongs to one sequence until that is released.
"""

from collections.abc import Mapping, Sequence

import torch

from assay.errors import BadInput
from assay.kv.contract import KVSpec
from assay.kv.encoding import Encoding


class PagedCache:
    """Room for `pages` pages of `page_size` tokens, for layers that are alike in `spec`."""

    def __init__(
        self,
        encodings: Sequence[Encoding],
        spec: KVSpec,
        *,
        pages: int,
        page_size: int,
        device: torch.device | str = "cpu",
    ) -> None:
        if pages < 1 or page_size < 1:
            raise BadInput(f"{pages} pages of {page_size} tokens; wanted at least 1 of 1")
        for encoding in encodings:
            if not encoding.is_by_token:
                raise BadInput(
                    f"pages hold single tokens; {encoding.layout.name} encodes blocks of "
                    f"{encoding.layout.block} behind a window of {encoding.residual}: choose a "
                    "layout of single tokens, without a window"
                )
        self.encodings, self.spec, self.page_size = list(encodings), spec, page_size
        self.pools = [
            {
                stream.name: torch.zeros(
                    (pages, *([stream.heads] if stream.heads else []), page_size, stream.width),
                    dtype=getattr(torch, stream.dtype),
                    device=device,
                )
                for stream in encoding.layout.streams(spec)
            }
            for encoding in self.encodings
        ]
        self._free = list(range(pages - 1, -1, -1))  # the next page is the last
        self._pages: dict[int, list[int]] = {}  # by sequence
        self._lengths: dict[int, int] = {}
        self._next_sequence = 0

    def add(self) -> int:
        """Return the number of a new, empty sequence."""
        sequence, self._next_sequence = self._next_sequence, self._next_sequence + 1
        self._pages[sequence], self._lengths[sequence] = [], 0
        return sequence

    def release(self, sequence: int) -> None:
        """Forget a sequence; its pages are free again."""
        self._known(sequence)
        self._free += reversed(self._pages.pop(sequence))
        del self._lengths[sequence]

    def append(
        self,
        sequences: Sequence[int],
        layers: Sequence[Mapping[str, torch.Tensor]],
        counts: Sequence[int],
    ) -> None:
        """Keep the first `counts` of the new tokens of each sequence, for all layers: k and v by
        layer, [sequences, heads, tokens, width]. Nothing is kept where there is no room."""
        self._refuse(sequences, layers, counts)
        self._reserve(sequences, counts)
        for pool, encoding, values in zip(self.pools, self.encodings, layers, strict=True):
            for index, (sequence, count) in enumerate(zip(sequences, counts, strict=True)):
                first = self._lengths[sequence]
                new = {name: value[index, :, :count] for name, value in values.items()}
                pages, rows = self._places(sequence, first, first + count)
                for name, kept in encoding.encode(new, first).items():
                    _bytes(pool[name])[pages, ..., rows, :] = _bytes(kept).movedim(-2, 0)
        for sequence, count in zip(sequences, counts, strict=True):
            self._lengths[sequence] += count

    def read(self, layer: int, sequence: int) -> dict[str, torch.Tensor]:
        """Return k and v of a sequence, [heads, tokens, width], decoded in float32 or as kept."""
        self._known(sequence)
        encoding, length = self.encodings[layer], self._lengths[sequence]
        pages, rows = self._places(sequence, 0, length)
        stored = {
            name: _bytes(pool)[pages, ..., rows, :].movedim(0, -2).contiguous().view(pool.dtype)
            for name, pool in self.pools[layer].items()
        }
        return encoding.decode(stored)

    def lengths(self, sequences: Sequence[int]) -> torch.Tensor:
        """Tokens of each sequence, int32 [sequences]."""
        return torch.tensor([self._known(sequence) for sequence in sequences], dtype=torch.int32)

    def tables(self, sequences: Sequence[int]) -> torch.Tensor:
        """Pages of each sequence in order, int32 [sequences, most pages], -1 where it has none."""
        listed = [self._pages[sequence] for sequence in sequences if self._known(sequence) >= 0]
        most = max((len(pages) for pages in listed), default=0)
        padded = [pages + [-1] * (most - len(pages)) for pages in listed]
        return torch.tensor(padded, dtype=torch.int32).reshape(len(listed), most)

    @property
    def nbytes(self) -> int:
        """Bytes of the tokens that are kept."""
        return sum(self._lengths.values()) * self._bytes_per_token

    @property
    def page_bytes(self) -> int:
        """Bytes of all pages that belong to a sequence, their empty rows included."""
        pages = sum(len(pages) for pages in self._pages.values())
        return pages * self.page_size * self._bytes_per_token

    @property
    def _bytes_per_token(self) -> int:
        return sum(e.layout.bytes_per_token(self.spec) for e in self.encodings)

    def _known(self, sequence: int) -> int:
        """The length of a sequence; BadInput where there is none of that number."""
        if sequence not in self._lengths:
            raise BadInput(
                f"there is no sequence {sequence}; there are {sorted(self._lengths) or 'none'}: "
                "add() gives the numbers"
            )
        return self._lengths[sequence]

    def _refuse(
        self,
        sequences: Sequence[int],
        layers: Sequence[Mapping[str, torch.Tensor]],
        counts: Sequence[int],
    ) -> None:
        for sequence in sequences:
            self._known(sequence)
        if len(set(sequences)) < len(sequences):
            raise BadInput(f"sequences {list(sequences)} are to be added to, one of them twice")
        tokens = max(counts, default=0)
        wanted = {
            name: (len(sequences), heads, tokens, self.spec.head_dim)
            for name, heads in (("k", self.spec.key_heads), ("v", self.spec.value_heads))
        }
        dtype = getattr(torch, self.spec.dtype)
        for values in layers:
            given = {name: tuple(value.shape) for name, value in values.items()}
            fits = given.keys() == wanted.keys() and all(
                (shape[0], shape[1], shape[3]) == (wanted[n][0], wanted[n][1], wanted[n][3])
                and shape[2] >= tokens
                for n, shape in given.items()
            )
            if not fits or {value.dtype for value in values.values()} != {dtype}:
                raise BadInput(f"tokens of {given}; wanted {wanted} in {dtype}")
        if (len(layers), len(counts)) != (len(self.pools), len(sequences)) or min(counts) < 0:
            raise BadInput(
                f"{len(layers)} layers and counts {list(counts)}; wanted {len(self.pools)} layers "
                f"and a count of 0 or more for each of {len(sequences)} sequences"
            )

    def _reserve(self, sequences: Sequence[int], counts: Sequence[int]) -> None:
        """Give every sequence the pages for its new tokens, or none of them any."""
        missing = {
            sequence: -(-(self._lengths[sequence] + count) // self.page_size)
            - len(self._pages[sequence])
            for sequence, count in zip(sequences, counts, strict=True)
        }
        wanted = sum(missing.values())
        if wanted > len(self._free):
            raise BadInput(
                f"{wanted} more pages of {self.page_size} tokens are wanted and {len(self._free)} "
                "are free; release a sequence, or make a cache with more pages"
            )
        for sequence, count in missing.items():
            self._pages[sequence] += [self._free.pop() for _ in range(count)]

    def _places(self, sequence: int, first: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Page and row of the tokens from `first` to `end`, [tokens] each."""
        tokens = torch.arange(first, end)
        pages = torch.tensor(self._pages[sequence], dtype=torch.long)
        return pages[tokens // self.page_size], tokens % self.page_size


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as bytes: torch cannot put numbers of 8 bits in place by an index."""
    return tensor.contiguous().view(torch.uint8)
