"""Runs FlashAttentionScore on the twin: any number of cores, any interleaving."""

import ctypes

import numpy as np

from tests.common.dtypes import BFLOAT16

from .runner import PIPES, Counts, Result, TwinError

LAYOUTS = ("BSH", "SBH", "BSND", "BNSD", "TND")
DTYPES = ("float16", "bfloat16", "float32")

_SIZES = "layout batch n1 n2 s1 s2 d dv dtype"
_ATTRS = "sparse_mode pre_tokens next_tokens pse_type q_start kv_start"
_TENSORS = (
    "query key value pse drop mask prefix query_ends key_ends sink output softmax_max softmax_sum"
)
# The runner's names of what tests/common calls otherwise.
_NAMES = {
    "real_shift": "pse",
    "drop_mask": "drop",
    "attn_mask": "mask",
    "actual_seq_qlen": "query_ends",
    "actual_seq_kvlen": "key_ends",
}


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_int64)]


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
        ("cores", ctypes.c_int64),
        ("seed", ctypes.c_int64),
        *((name, _Tensor) for name in _TENSORS.split()),
    ]


def raw(tensor):
    """The values of a tensor as they lie in memory."""
    return np.ascontiguousarray(tensor[1] if isinstance(tensor, tuple) else tensor)


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
        call.q_start, call.kv_start = a["q_start_idx"], a["kv_start_idx"]
        call.scale, call.keep_prob = a["scalar_value"], a["keep_prob"]
        call.cores, call.seed = cores, seed
        arrays = {}
        for name, tensor in case.named().items():
            if tensor is None:
                continue
            name, array = _NAMES.get(name, name), raw(tensor)
            if name in ("prefix", "query_ends", "key_ends"):
                array = array.astype(np.int64)
            arrays[name] = array
        for name in ("mask", "pse"):
            shape = arrays[name].shape if name in arrays else ()
            getattr(call, f"{name}_shape")[: len(shape)] = shape
            setattr(call, f"{name}_rank", len(shape))
        return call, arrays

    def _outputs(self, case, arrays):
        size, q = dims(case), arrays["query"]
        shape = list(q.shape)
        packed = case.attrs["input_layout"] == "TND"
        heads = 1 if len(shape) == 4 or packed else size["n1"]
        shape[-1] = heads * size["dv"]
        rows = (size["s1"], size["n1"], 8) if packed else (size["batch"], size["n1"], size["s1"], 8)
        arrays["output"] = np.full(shape, 0x7EA5 if q.dtype.itemsize == 2 else np.nan, _plain(q))
        arrays["softmax_max"] = np.full(rows, np.nan, np.float32)
        arrays["softmax_sum"] = np.full(rows, np.nan, np.float32)

    def run(self, case, cores, seed=0):
        """(outputs as the native binding returns them, Counts); TwinError if the twin objects."""
        call, arrays = self._call(case, cores, seed)
        self._outputs(case, arrays)
        for name, array in arrays.items():
            # An address even where there is nothing, as for a tensor without elements.
            setattr(call, name, _Tensor(array.ctypes.data, array.nbytes))
        result = Result()
        self.library.run_flash(ctypes.byref(call), ctypes.byref(result))
        if result.error:
            raise TwinError(result.error.decode())
        assert result.unwritten == 0, f"{case}: {result.unwritten} bytes of outputs never written"
        counts = Counts(
            result.cores,
            result.warnings,
            dict(zip(PIPES, result.instructions)),
            dict(zip(PIPES, result.repeats)),
            result.gm_read,
            result.gm_written,
        )
        out = arrays["output"]
        out = (BFLOAT16, out) if case.dtype == BFLOAT16 else out.view(case.dtype)
        return [out, arrays["softmax_max"], arrays["softmax_sum"]], counts


def _plain(array):
    return np.uint16 if array.dtype.itemsize == 2 else np.float32
