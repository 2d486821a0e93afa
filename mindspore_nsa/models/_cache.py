"""Caches keep of an attention layer's earlier tokens what the later ones read."""

import mindspore
import numpy as np
from mindspore import Tensor, ops

from ..ops._plan import shown


class LayerCache:
    """The tokens of the rows of a batch, made by `new_cache` of a layer, for PyNative mode.

    The layer appends to the rows in place. A row can be emptied, but not go back: what a compressor
    has pooled is gone.

    Args:
        layer (str): Name of the layer.
        batch (int): Rows, which grow independently.
        capacity (int): Most tokens of a row.
        places (dict): For every Tensor its name and the places and the width of a row.
        made_for (tuple): What tells apart the layers that may use it.
    """

    def __init__(self, layer, batch, capacity, places, made_for):
        self.layer, self.capacity, self.made_for = layer, capacity, made_for
        self._lengths = np.zeros(batch, np.int64)
        self.places = {name: count for name, (count, _) in places.items()}
        self.tensors = {
            name: Tensor(np.zeros((batch * count, width), np.float32))
            for name, (count, width) in places.items()
        }
        self.table = Tensor(np.arange(batch, dtype=np.int32)[:, None])

    @property
    def batch(self):
        """Number of rows, an int."""
        return len(self._lengths)

    @property
    def lengths(self):
        """Tokens of every row now, a Tensor of int64, shape :math:`(B,)`."""
        return Tensor(self._lengths.copy())

    @property
    def nbytes(self):
        """Bytes of all Tensors, an int."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def __repr__(self):
        """One line with the layer, the capacity and the lengths."""
        return f"LayerCache({self.layer}, capacity={self.capacity}, lengths={self._lengths})"

    def reset(self, rows=None):
        """Empty rows, for other sequences to begin in them.

        Args:
            rows (Union[list[int], tuple[int]], optional): Numbers of the rows.
                Default: ``None``, all.
        """
        self._lengths[slice(None) if rows is None else list(rows)] = 0

    def room(self, ends):
        """An error where rows of packed tokens that end at `ends` do not fit."""
        counts = np.diff(ends, prepend=0)
        if len(counts) != self.batch:
            raise ValueError(
                f"{self.layer}: x must have {self.batch} rows or documents, one for every row of "
                f"the cache, got {len(counts)}"
            )
        after = self._lengths + counts
        if after.max() > self.capacity:
            row = int(after.argmax())
            raise ValueError(
                f"{self.layer}: cache must have room for the tokens of x, its capacity is "
                f"{self.capacity}, got {after[row]} tokens in row {row}"
            )

    def advance(self, ends):
        """The tokens that end at `ends` are in the rows."""
        self._lengths += np.diff(ends, prepend=0)

    def write(self, name, rows, places, values):
        """Put values [T, ..., width] at places of rows, int64 [T]."""
        tensor = self.tensors[name]
        index = ops.cast(rows * self.places[name] + places, mindspore.int32)
        values = ops.reshape(ops.cast(values, mindspore.float32), (-1, tensor.shape[1]))
        ops.scatter_update(tensor, index, values)

    def write_all(self, name, values):
        """Put values [B places, width] in the place of all there were."""
        ops.assign(self.tensors[name], values)

    def pages(self, name):
        """The rows as pages [B, places, 1, width]."""
        return ops.reshape(self.tensors[name], (self.batch, self.places[name], 1, -1))


def make_cache(layer, batch, capacity, places, made_for):
    """An empty cache, after the checks of its sizes."""
    for name, value in (("batch", batch), ("max_length", capacity)):
        if type(value) is not int:
            raise TypeError(f"{layer}.new_cache: {name} must be an int, got {shown(value)}")
        if value < 1:
            raise ValueError(f"{layer}.new_cache: {name} must be at least 1, got {value}")
    return LayerCache(layer, batch, capacity, places, made_for)
