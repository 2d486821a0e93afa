"""Runs NsaCompressAttention on the twin: any number of cores, any interleaving."""

import ctypes

import numpy as np

from mindspore_nsa.reference.segments import compressed_seq_len
from mindspore_nsa.testing.dtypes import BFLOAT16

from .launch import Tensor, as_dtype, launch, raw, unwritten

_SIZES = "queries keys n1 n2 d dv bfloat16"
_ATTRS = (
    "compress_block_size compress_stride select_block_size select_block_count "
    "causal init_blocks local_blocks"
)
_REST = "overlap mask_row topk_mask_row cores seed"
_TENSORS = (
    "query key value atten_mask topk_mask query_ends key_ends offsets "
    "output indices softmax_max softmax_sum"
)
# The runner's names of what tests/common calls otherwise.
_LISTS = {
    "actual_seq_qlen": "query_ends",
    "actual_cmp_seq_kvlen": "key_ends",
    "q_offset": "offsets",
}


# The fields of the struct of compress_attention_runner.cc.
class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in f"{_SIZES} {_ATTRS} {_REST}".split()),
        ("scale", ctypes.c_double),
        *((name, Tensor) for name in _TENSORS.split()),
    ]


class CompressAttentionRunner:
    """The kernel as one library, see builds.py."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))

    def _arrays(self, case):
        arrays, x = {}, case.named()
        for name in ("query", "key", "value", "atten_mask", "topk_mask"):
            if x[name] is not None:
                arrays[name] = raw(x[name])
        if x["actual_cmp_seq_kvlen"] is None:
            x["actual_cmp_seq_kvlen"] = compressed_seq_len(
                x["actual_seq_qlen"],
                case.attrs["compress_block_size"],
                case.attrs["compress_stride"],
            )
        for name, ours in _LISTS.items():
            if x[name] is not None:
                arrays[ours] = np.asarray(x[name], np.int64)
        queries, heads, _ = arrays["query"].shape
        _, key_heads, value_dim = arrays["value"].shape
        count = case.attrs["select_block_count"]
        arrays["output"] = unwritten(arrays["query"], (queries, heads, value_dim))
        arrays["indices"] = np.full((queries, key_heads, count), -7, np.int32)
        for name in ("softmax_max", "softmax_sum"):
            arrays[name] = np.full((queries, heads, 8), np.nan, np.float32)
        return arrays

    def run(self, case, cores, seed=0):
        """(outputs as the native binding returns them, Counts); TwinError if the twin objects."""
        arrays = self._arrays(case)
        call = _Call(cores=cores, seed=seed, bfloat16=case.dtype == BFLOAT16)
        call.queries, call.n1, call.d = arrays["query"].shape
        call.keys, call.n2, call.dv = arrays["value"].shape
        for name in _ATTRS.split():
            setattr(call, name, case.attrs[name])
        call.overlap = case.attrs["importance"] == "overlap"
        call.scale = case.attrs["scale_value"]
        for name, row in (("atten_mask", "mask_row"), ("topk_mask", "topk_mask_row")):
            if name in arrays:
                setattr(call, row, arrays[name].shape[1])
        counts = launch(self.library.run, call, arrays, case)
        names = ("output", "indices", "softmax_max", "softmax_sum")
        return [as_dtype(case.dtype, arrays[name]) for name in names], counts
