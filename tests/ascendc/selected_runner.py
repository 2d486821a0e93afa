"""Runs NsaSelectedAttention and its gradient on the twin: any number of cores and interleaving."""

import ctypes

import numpy as np

from mindspore_nsa.testing.dtypes import BFLOAT16

from .launch import Tensor, arrays_of, as_dtype, launch, unwritten

_NUMBERS = "t1 t2 n1 n2 d dv bfloat16 block_size block_count causal tile_queries cores seed".split()
_TENSORS = (
    "query key value indices query_ends key_ends offsets output softmax_max softmax_sum "
    "output_grad sum_grad query_grad key_grad value_grad"
).split()
# The runner's names of what tests/common calls otherwise.
_NAMES = {
    "topk_indices": "indices",
    "actual_seq_qlen": "query_ends",
    "actual_seq_kvlen": "key_ends",
    "q_offset": "offsets",
    "attention_out": "output",
    "attention_out_grad": "output_grad",
    "softmax_sum_grad": "sum_grad",
}


# The fields of the struct of selected_runner.cc.
class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in _NUMBERS),
        ("scale", ctypes.c_double),
        *((name, Tensor) for name in _TENSORS),
    ]


class SelectedRunner:
    """The kernels as one library, see builds.py."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))

    def run(self, case, cores, seed=0, tile_queries=0):
        """(outputs as the native binding returns them, Counts); TwinError if the twin objects.

        `tile_queries`: queries of a tile, at most; 0: as tiling decides.
        """
        arrays = arrays_of(case, _NAMES, ("query_ends", "key_ends", "offsets"))
        (t1, n1, d), (t2, n2, dv) = arrays["query"].shape, arrays["value"].shape
        a = case.attrs
        backward = case.op == "NsaSelectedAttentionGrad"
        if backward:
            names = ["query_grad", "key_grad", "value_grad"]
            for name in names:
                arrays[name] = unwritten(arrays[name[:-5]], arrays[name[:-5]].shape)
        else:
            names = ["output", "softmax_max", "softmax_sum"]
            arrays["output"] = unwritten(arrays["query"], (t1, n1, dv))
            for name in names[1:]:
                arrays[name] = np.full((t1, n1, 8), np.nan, np.float32)
        call = _Call(
            *(t1, t2, n1, n2, d, dv, case.dtype == BFLOAT16),
            *(a["select_block_size"], a["select_block_count"], a["causal"]),
            *(tile_queries, cores, seed, a["scale_value"]),
        )
        run = self.library.run_selected_grad if backward else self.library.run_selected
        counts = launch(run, call, arrays, case)
        return [as_dtype(case.dtype, arrays[name]) for name in names], counts
