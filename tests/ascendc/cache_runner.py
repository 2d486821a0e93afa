"""Runs NsaCompressWithCache on the twin: any number of cores, any interleaving."""

import ctypes

import numpy as np

from mindspore_nsa.testing.dtypes import BFLOAT16

from .launch import Tensor, arrays_of, as_dtype, launch, unwritten

_NUMBERS = "pages page places batch slots block_size stride heads dim bfloat16 cores seed".split()
_TENSORS = "input weight slot_mapping actual_seq_len block_table cache rows".split()
_LISTS = ("slot_mapping", "actual_seq_len")


# The fields of the struct of cache_runner.cc.
class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in _NUMBERS),
        *((name, Tensor) for name in _TENSORS),
    ]


class CacheRunner:
    """The kernel as one library, see builds.py."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))

    def _call(self, case, cores, seed):
        """(the call, the arrays that it points to)"""
        arrays = arrays_of(case, {}, _LISTS)
        arrays["cache"] = arrays["cache"].copy()
        slots, heads, dim = arrays["cache"].shape
        batch = len(arrays["actual_seq_len"])
        arrays["rows"] = unwritten(arrays["cache"], (batch, heads, dim))
        paged = "block_table" in arrays
        shape = arrays["input"].shape
        pages = (*shape[:2], arrays["block_table"].shape[1]) if paged else (shape[0], 1, 0)
        sizes = (case.attrs[f"compress_{name}"] for name in ("block_size", "stride"))
        return _Call(
            *(*pages, batch, slots, *sizes, heads, dim, case.dtype == BFLOAT16, cores, seed)
        ), arrays

    def run(self, case, cores, seed=0, written=None):
        """([rows] as the native binding returns them, Counts); TwinError if the twin objects.

        The cache has the rows in their slots, and is otherwise as it was. `written`: rows of the
        batch that have one, if not those that fill a window.
        """
        call, arrays = self._call(case, cores, seed)
        expected = arrays["cache"].view(np.uint16).copy()
        counts = launch(self.library.run_compress_with_cache, call, arrays, case)
        rows, cache = arrays["rows"], arrays["cache"]
        for b in written_rows(case) if written is None else written:
            expected[arrays["slot_mapping"][b]] = rows[b]
        assert np.array_equal(cache.view(np.uint16), expected), f"{case}: the cache"
        return [as_dtype(case.dtype, rows)], counts

    def tiling(self, batch, heads, dim, cores):
        """(heads of a tile, bytes of the UB) as op_host decides."""
        call = _Call(*(64, 16, 4, batch, 8, 32, 16, heads, dim, False, cores, 0))
        out = (ctypes.c_int64 * 2)()
        self.library.tile_compress_with_cache(ctypes.byref(call), out)
        return tuple(out)


def written_rows(case):
    """Rows of the batch that fill a window."""
    l, s = (case.attrs[f"compress_{name}"] for name in ("block_size", "stride"))  # noqa: E741
    lengths = enumerate(case.named()["actual_seq_len"])
    return [b for b, n in lengths if n >= l and (n - l) % s == 0]
