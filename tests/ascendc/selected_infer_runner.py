"""Runs NsaSelectedAttentionInfer on the twin: any number of cores, any interleaving."""

import ctypes

from mindspore_nsa.testing.dtypes import BFLOAT16

from .launch import Tensor, arrays_of, as_dtype, launch, unwritten

_NUMBERS = (
    "pages page places batch queries n1 n2 d dv block_size block_count wave_queries bfloat16 cores "
    "seed"
).split()
_TENSORS = "query key value indices block_table counts lengths output".split()
# The runner's names of what tests/common calls otherwise.
_NAMES = {
    "topk_indices": "indices",
    "actual_seq_qlen": "counts",
    "actual_seq_kvlen": "lengths",
}


# The fields of the struct of selected_infer_runner.cc.
class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in _NUMBERS),
        ("scale", ctypes.c_double),
        *((name, Tensor) for name in _TENSORS),
    ]


class SelectedInferRunner:
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
        *shape, n1, d = arrays["query"].shape
        n2 = a["key_value_head_num"]
        pages, page = arrays["key"].shape[:2]
        dv = arrays["value"].size // (pages * page * n2)
        arrays["output"] = unwritten(arrays["query"], (*shape, n1, dv))
        queries = arrays["query"].size // (n1 * d)
        places = arrays["block_table"].shape[1] if "block_table" in arrays else 0
        call = _Call(
            *(pages, page, places, len(arrays["lengths"]), queries, n1, n2, d, dv),
            *(a["select_block_size"], a["select_block_count"], wave_queries),
            *(case.dtype == BFLOAT16, cores, seed, a["scale_value"]),
        )
        counts = launch(self.library.run_selected_infer, call, arrays, case)
        return [as_dtype(case.dtype, arrays["output"])], counts
