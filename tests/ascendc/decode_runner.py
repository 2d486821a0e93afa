"""Runs NsaDecode on the twin: any number of cores, any interleaving."""

import ctypes

from mindspore_nsa.testing.dtypes import BFLOAT16

from .launch import Tensor, arrays_of, as_dtype, launch, unwritten

_NUMBERS = (
    *(f"{cache}_{what}" for cache in ("cmp", "slc", "win") for what in ("pages", "page", "places")),
    *"batch queries n1 n2 d dv window_tokens stride block_tokens count init local".split(),
    *"overlap seen heads_first wave_queries bfloat16 cores seed".split(),
)
_TENSORS = (
    "query gates key_cmp value_cmp key_slc value_slc key_win value_win block_table cmp_block_table "
    "counts lengths output"
).split()
# The runner's names of what tests/common calls otherwise.
_NAMES = {"actual_seq_qlen": "counts", "actual_seq_kvlen": "lengths"}
_ATTRS = (
    "compress_block_size compress_stride select_block_size select_block_count init_blocks "
    "local_blocks"
).split()


# The fields of the struct of decode_runner.cc.
class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in _NUMBERS),
        ("scale", ctypes.c_double),
        *((name, Tensor) for name in _TENSORS),
    ]


class DecodeRunner:
    """The kernel as one library, see builds.py."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))

    def run(self, case, cores, seed=0, wave_queries=0):
        """([attention_out] as the native binding returns it, Counts); TwinError if the twin
        objects.

        `wave_queries`: queries of a wave; 0: as tiling decides.
        """
        arrays = arrays_of(case, _NAMES, ("counts", "lengths"))
        a = case.attrs
        heads_first = a["cache_layout"] == "BNSD"
        *shape, n1, d = arrays["query"].shape
        sizes = []
        tables = {"cmp": "cmp_block_table", "slc": "block_table", "win": None}
        for cache, table in tables.items():
            key = arrays[f"key_{cache}"].shape
            places = arrays[table].shape[1] if table in arrays else 0
            sizes += [key[0], key[2 if heads_first else 1], places]
        n2, dv = key[1 if heads_first else 2], arrays["value_win"].shape[3]
        arrays["output"] = unwritten(arrays["query"], (*shape, n1, dv))
        call = _Call(
            *(*sizes, len(arrays["lengths"]), arrays["query"].size // (n1 * d), n1, n2, d, dv),
            *(a.get(name, 0) for name in _ATTRS),
            *(a["importance"] == "overlap", a["window_size"], heads_first, wave_queries),
            *(case.dtype == BFLOAT16, cores, seed, a["scale_value"]),
        )
        counts = launch(self.library.run_decode, call, arrays, case)
        return [as_dtype(case.dtype, arrays["output"])], counts
