"""Runs NsaCompressAttentionInfer on the twin: any number of cores, any interleaving."""

import ctypes

import numpy as np

from mindspore_nsa.testing.dtypes import BFLOAT16

from .launch import Tensor, arrays_of, as_dtype, launch, unwritten

_SIZES = "pages page places batch queries n1 n2 d dv"
_RULE = "window_tokens stride block_tokens count init local overlap known"
_REST = "wave_queries window shared bfloat16 cores seed"
_TENSORS = "query key value block_table counts compressed tokens output indices".split()
# The runner's names of what tests/common calls otherwise.
_NAMES = {
    "actual_seq_qlen": "counts",
    "actual_cmp_seq_kvlen": "compressed",
    "actual_sel_seq_kvlen": "tokens",
}
_ATTRS = (
    "compress_block_size compress_stride select_block_size select_block_count init_blocks "
    "local_blocks"
).split()


# The fields of the struct of compress_infer_runner.cc.
class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in f"{_SIZES} {_RULE} {_REST}".split()),
        ("scale", ctypes.c_double),
        *((name, Tensor) for name in _TENSORS),
    ]


class CompressInferRunner:
    """The kernel as one library, see builds.py."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))

    def run(self, case, cores, seed=0, wave_queries=0, window=0, shared=0):
        """([attention_out, topk_indices] as the native binding returns them, Counts); TwinError if
        the twin objects.

        `wave_queries`: queries of a wave; `window`: blocks that are ranked at a time; `shared`:
        queries of a product, at most; 0: as tiling decides.
        """
        arrays = arrays_of(case, _NAMES, ("counts", "compressed", "tokens"))
        a = case.attrs
        *shape, n1, d = arrays["query"].shape
        n2 = a["key_value_head_num"]
        pages, page = arrays["key"].shape[:2]
        dv = arrays["value"].size // (pages * page * n2)
        arrays["output"] = unwritten(arrays["query"], (*shape, n1, dv))
        arrays["indices"] = np.full((*shape, n2, a["select_block_count"]), -7, np.int32)
        queries = arrays["query"].size // (n1 * d)
        places = arrays["block_table"].shape[1] if "block_table" in arrays else 0
        call = _Call(
            *(pages, page, places, len(arrays["compressed"]), queries, n1, n2, d, dv),
            *(a.get(name, 0) for name in _ATTRS),
            *(a["importance"] == "overlap", "tokens" in arrays, wave_queries, window, shared),
            *(case.dtype == BFLOAT16, cores, seed, a["scale_value"]),
        )
        counts = launch(self.library.run_compress_infer, call, arrays, case)
        return [as_dtype(case.dtype, arrays["output"]), arrays["indices"]], counts
