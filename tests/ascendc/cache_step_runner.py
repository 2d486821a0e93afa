"""Runs NsaCacheStep on the twin: any number of cores, any interleaving."""

import ctypes
from dataclasses import dataclass

import numpy as np

from mindspore_nsa.nn.cache_state import HEADER
from mindspore_nsa.testing.dtypes import BFLOAT16, decode

from .launch import Tensor, as_dtype, launch, unwritten

_NUMBERS = (
    *"batch tokens capacity n1 n2 d dv sparse shared window rollback block_size stride".split(),
    *"select_size count init local overlap layer wave_queries bfloat16 cores seed".split(),
)
_TENSORS = (
    "query key value selected state ends gates weight_k weight_v position_k position_v others "
    "angles fine_angles output"
).split()
LAYER = 7  # whose tokens the steps write
STEP = 2048


# The fields of the struct of cache_step_runner.cc.
class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in _NUMBERS),
        ("scale", ctypes.c_double),
        *((name, Tensor) for name in _TENSORS),
    ]


@dataclass
class Sizes:
    """Sizes of a layer, and the dtype of its cache."""

    batch: int = 3
    capacity: int = 96
    n1: int = 4
    n2: int = 2
    d: int = 32
    dv: int = 16
    sparse: bool = True
    shared: bool = False
    window: int = 12
    rollback: int = 8
    block_size: int = 8
    stride: int = 4
    select_size: int = 8
    count: int = 12
    init: int = 1
    local: int = 2
    overlap: bool = False  # the blocks' importance
    dtype: str = "float16"

    @property
    def sets(self):
        """Sets of keys and values."""
        return 3 if self.sparse and not self.shared else 1

    def places(self):
        """Places of compressed tokens, of the window's ring and of the compression's."""
        ring = 0 if self.shared else min(self.capacity, self.window + self.rollback)
        raw = min(self.capacity, self.block_size + self.rollback)
        return max(1, (self.capacity - self.block_size) // self.stride + 1), ring, raw


def _angles(positions, dim):
    """Cosines and sines of a table, each twice."""
    angles = positions[:, None] * 10000.0 ** (-np.arange(0, dim, 2) / dim)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate((cos, cos, sin, sin), 1).astype(np.float32)


class CacheStepRunner:
    """The kernel as one library, see builds.py."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))

    def cache(self, sizes):
        """An empty cache: selected, state, others; as `raw` of launch.py has them."""
        width, rows = sizes.d + sizes.dv, (sizes.batch, sizes.n2)
        kind = np.uint16 if sizes.dtype == BFLOAT16 else sizes.dtype
        others = sum(sizes.places()) if sizes.sparse else 1
        return {
            "selected": np.zeros((*rows, sizes.capacity, width), kind),
            "state": np.zeros((sizes.batch, HEADER + 2), np.int64),
            "others": np.zeros((*rows, others, width), kind),
        }

    def run(self, sizes, cache, tensors, ends, cores, seed=0, wave_queries=0):
        """(attention_out, Counts) of new tokens, which go into the cache; every row has as many
        where `ends` is None."""
        tokens = len(tensors["query"])
        arrays = {**cache, **tensors}
        if ends is not None:
            arrays["ends"] = np.array(ends, np.int64)
        arrays["angles"] = _angles(np.arange(0, 1024 * STEP, STEP), sizes.d)
        arrays["fine_angles"] = _angles(np.arange(STEP), sizes.d)
        arrays["output"] = unwritten(cache["selected"], (tokens, sizes.n1, sizes.dv))
        call = _Call(
            *(sizes.batch, tokens, sizes.capacity, sizes.n1, sizes.n2, sizes.d, sizes.dv),
            *(sizes.sparse, sizes.shared, sizes.window, sizes.rollback, sizes.block_size),
            *(sizes.stride, sizes.select_size, sizes.count, sizes.init, sizes.local),
            *(sizes.overlap, LAYER, wave_queries, sizes.dtype == BFLOAT16),
            *(cores, seed, sizes.d**-0.5),
        )
        counts = launch(self.library.run_cache_step, call, arrays, f"{sizes} {ends}")
        return decode(as_dtype(sizes.dtype, arrays["output"])), counts
