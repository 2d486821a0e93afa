"""Runs FlashAttentionScore and its gradient on the twin: any number of cores, any interleaving."""

import ctypes

import numpy as np

from .launch import Tensor, arrays_of, as_dtype, launch, raw, unwritten

LAYOUTS = ("BSH", "SBH", "BSND", "BNSD", "TND")
DTYPES = ("float16", "bfloat16", "float32")

_SIZES = "layout batch n1 n2 s1 s2 d dv dtype"
_ATTRS = "sparse_mode pre_tokens next_tokens pse_type"
_TENSORS = (
    "query key value pse drop mask prefix query_ends key_ends q_starts kv_starts sink "
    "output softmax_max softmax_sum output_grad offsets sum_grad query_grad "
    "key_grad value_grad pse_grad sink_grad"
)
# The runner's names of what tests/common calls otherwise.
_NAMES = {
    "real_shift": "pse",
    "drop_mask": "drop",
    "attn_mask": "mask",
    "actual_seq_qlen": "query_ends",
    "actual_seq_kvlen": "key_ends",
    "q_start_idx": "q_starts",
    "kv_start_idx": "kv_starts",
    "attention_in": "output",
    "dy": "output_grad",
    "q_offset": "offsets",
    "softmax_sum_grad": "sum_grad",
}


_LISTS = ("prefix", "query_ends", "key_ends", "q_starts", "kv_starts", "offsets")


# The fields of the struct of flash_runner.cc.
class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in (_SIZES + " " + _ATTRS).split()),
        ("scale", ctypes.c_double),
        ("keep_prob", ctypes.c_double),
        ("mask_shape", ctypes.c_int64 * 4),
        ("pse_shape", ctypes.c_int64 * 4),
        ("mask_rank", ctypes.c_int64),
        ("pse_rank", ctypes.c_int64),
        ("wants_pse_grad", ctypes.c_int64),
        ("compress_block", ctypes.c_int64),
        ("compress_stride", ctypes.c_int64),
        ("cores", ctypes.c_int64),
        ("seed", ctypes.c_int64),
        *((name, Tensor) for name in _TENSORS.split()),
    ]


def dims(case):
    """{size: value} of a call."""
    x, layout, n1 = case.named(), case.attrs["input_layout"], case.attrs["head_num"]
    q, k, v = (raw(x[name]).shape for name in ("query", "key", "value"))
    d = {"BSH": lambda s: s[2] // n1, "SBH": lambda s: s[2] // n1}.get(layout, lambda s: s[-1])(q)
    n2 = k[{"BNSD": 1}.get(layout, -2)] if len(k) == 4 or layout == "TND" else k[2] // d
    s_axis = {"SBH": 0, "TND": 0, "BNSD": 2}.get(layout, 1)
    batch = len(x["actual_seq_qlen"]) if layout == "TND" else q[1 if layout == "SBH" else 0]
    dv = v[-1] if len(v) == 4 or layout == "TND" else v[2] // n2
    return dict(batch=batch, n1=n1, n2=n2, s1=q[s_axis], s2=k[s_axis], d=d, dv=dv)


class FlashRunner:
    """The kernels as one library, see builds.py."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))

    def _call(self, case, cores, seed):
        """(the call, the arrays that it points to)"""
        a, size = case.attrs, dims(case)
        call = _Call(layout=LAYOUTS.index(a["input_layout"]), dtype=DTYPES.index(case.dtype))
        for name, value in size.items():
            setattr(call, name, value)
        for name in ("sparse_mode", "pre_tokens", "next_tokens", "pse_type"):
            setattr(call, name, a[name])
        call.scale, call.keep_prob = a["scalar_value"], a["keep_prob"]
        call.wants_pse_grad = a.get("pse_grad", 0)
        call.compress_block = a.get("compress_block_size", 0)
        call.compress_stride = a.get("compress_stride", 0)
        call.cores, call.seed = cores, seed
        arrays = arrays_of(case, _NAMES, _LISTS)
        for name in ("mask", "pse"):
            shape = arrays[name].shape if name in arrays else ()
            getattr(call, f"{name}_shape")[: len(shape)] = shape
            setattr(call, f"{name}_rank", len(shape))
        return call, arrays

    def _forward_outputs(self, case, arrays):
        size, q = dims(case), arrays["query"]
        shape = list(q.shape)
        packed = case.attrs["input_layout"] == "TND"
        heads = 1 if len(shape) == 4 or packed else size["n1"]
        shape[-1] = heads * size["dv"]
        rows = (size["s1"], size["n1"], 8) if packed else (size["batch"], size["n1"], size["s1"], 8)
        arrays["output"] = unwritten(q, shape)
        arrays["softmax_max"] = np.full(rows, np.nan, np.float32)
        arrays["softmax_sum"] = np.full(rows, np.nan, np.float32)
        return ["output", "softmax_max", "softmax_sum"]

    def _gradients(self, case, arrays):
        for name in ("query", "key", "value"):
            arrays[f"{name}_grad"] = unwritten(arrays[name], arrays[name].shape)
        wanted = case.attrs["pse_grad"] and "pse" in arrays and case.attrs["pse_type"] < 2
        arrays["pse_grad"] = unwritten(arrays["query"], arrays["pse"].shape if wanted else (1,))
        arrays["sink_grad"] = np.full(
            case.attrs["head_num"] if "sink" in arrays else 1, np.nan, np.float32
        )
        return ["query_grad", "key_grad", "value_grad", "pse_grad", "sink_grad"]

    def run(self, case, cores, seed=0):
        """(outputs as the native binding returns them, Counts); TwinError if the twin objects."""
        call, arrays = self._call(case, cores, seed)
        backward = case.op == "FlashAttentionScoreGrad"
        names = (self._gradients if backward else self._forward_outputs)(case, arrays)
        run = self.library.run_flash_grad if backward else self.library.run_flash
        counts = launch(run, call, arrays, case)
        return [as_dtype(case.dtype, arrays[name]) for name in names], counts
