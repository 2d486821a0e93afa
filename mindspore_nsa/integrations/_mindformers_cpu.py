"""Serves on a CPU the operators that MindFormers' variants `dsa` and `dsv4_hybrid` call.

MindFormers takes most of it by name when its modules are imported, so names are exchanged before
and put back at the end, when the modules that took them are dropped, too.
"""

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import mindspore
from mindspore import Tensor, mint, nn, ops
from mindspore.ops.operations import nn_ops

from .. import ops as nsa
from . import _mint
from ._convert import version_of

VERSION = "2.1.0"
PARALLEL, OPERATORS = "hyper_parallel", "hyper_parallel.custom_ops.experimental"
_MODULES = "mindformers.pynative"


def npu_dense_lightning_indexer_softmax_lse(*args, **kwargs):
    """Statistics of the indexer's scores over all keys."""
    return nsa.dense_lightning_indexer_softmax_lse(*args, **kwargs)


def _wide(gradients):
    # MindFormers multiplies them by a float32 scalar; bfloat16 has no kernel for that on a CPU.
    return tuple(ops.cast(x, mindspore.float32) for x in gradients)


def npu_dense_lightning_indexer_grad_kl_loss(*args, **kwargs):
    """Gradients of the indexer's KL loss over all keys, and the loss."""
    return _wide(nsa.dense_lightning_indexer_grad_kl_loss(*args, **kwargs))


def npu_sparse_lightning_indexer_grad_kl_loss(*args, **kwargs):
    """Gradients of the indexer's KL loss over its picks, and the loss."""
    return _wide(nsa.sparse_lightning_indexer_grad_kl_loss(*args, **kwargs))


def _residuals(residual, rows):
    """MindFormers gives one residual for all rows."""
    if residual is not None and residual.shape[0] == 1 and rows > 1:
        residual = ops.tile(residual, (rows,))
    return residual


def npu_lightning_indexer(
    query, key, weights, topk, *, cmp_residual_k=None, layout="BSND", sparse_mode=0, cmp_ratio=1,
    return_value=False,
):  # fmt: skip
    """The entries of largest score for every query, and the scores."""
    return nsa.lightning_indexer_v2(
        query, key, weights, topk, cmp_residual_k=_residuals(cmp_residual_k, query.shape[0]),
        layout_q=layout, layout_k=layout, mask_mode=sparse_mode, cmp_ratio=cmp_ratio,
        return_value=return_value,
    )  # fmt: skip


def _mla_options(query, cmp_kv, residual, layout, options):
    if cmp_kv is not None:
        options["cmp_residual_kv"] = _residuals(residual, query.shape[0])
    return {**options, "layout_q": layout, "layout_kv": layout}


def npu_sparse_flash_mla(
    query, *, ori_kv, cmp_kv=None, cmp_sparse_indices=None, cmp_residual_kv=None, sinks=None,
    layout="BSND", **options,
):  # fmt: skip
    """Attention over a window and entries, and the log-sum-exp."""
    options = _mla_options(query, cmp_kv, cmp_residual_kv, layout, options)
    return nsa.sparse_flash_mla(
        query, ori_kv=ori_kv, cmp_kv=cmp_kv, cmp_sparse_indices=cmp_sparse_indices, sinks=sinks,
        **options,
    )[:2]  # fmt: skip


def npu_sparse_flash_mla_grad(
    query, dout, out, softmax_lse, *, ori_kv, cmp_kv=None, cmp_sparse_indices=None,
    cmp_residual_kv=None, sinks=None, layout="BSND", **options,
):  # fmt: skip
    """Gradients of query, window, entries and sinks; None; the mean probability of every pick."""
    options = _mla_options(query, cmp_kv, cmp_residual_kv, layout, options)
    options.update(cmp_sparse_indices=cmp_sparse_indices)

    def attention(query, ori_kv, sinks, *entries):
        given = {"ori_kv": ori_kv, "sinks": sinks, "cmp_kv": entries[0] if entries else None}
        return nsa.sparse_flash_mla(query, **given, **options)[0]

    entries = () if cmp_kv is None else (cmp_kv,)
    gradient = ops.GradOperation(get_all=True, sens_param=True)(attention)
    d_query, d_ori, d_sinks, *d_entries = gradient(query, ori_kv, sinks, *entries, dout)
    d_cmp, picked = d_entries[0] if d_entries else None, None
    if cmp_sparse_indices is not None:
        picked = nsa.sparse_flash_mla(
            query, ori_kv=ori_kv, cmp_kv=cmp_kv, sinks=sinks, return_softmax_l1=True, **options
        )[2]
    return d_query, d_ori, d_cmp, d_sinks, None, picked


def npu_sparse_lightning_indexer_kl_loss_grad(
    query, key, weights, sparse_indices, attn_softmax_l1_norm, *, cmp_residual_k=None,
    layout="BSND", mask_mode=3, cmp_ratio=1,
):  # fmt: skip
    """Gradients of an indexer's KL loss for a given teacher, and the softmax of its scores."""
    return _wide(nsa.sparse_lightning_indexer_kl_loss_grad(
        query, key, weights, sparse_indices, attn_softmax_l1_norm,
        cmp_residual_k=_residuals(cmp_residual_k, query.shape[0]), layout_q=layout,
        layout_k=layout, mask_mode=mask_mode, cmp_ratio=cmp_ratio,
    ))  # fmt: skip


SERVED = {
    function.__name__: function
    for function in (
        npu_dense_lightning_indexer_grad_kl_loss,
        npu_dense_lightning_indexer_softmax_lse,
        npu_lightning_indexer,
        npu_sparse_flash_mla,
        npu_sparse_flash_mla_grad,
        npu_sparse_lightning_indexer_grad_kl_loss,
        npu_sparse_lightning_indexer_kl_loss_grad,
    )
}


class FlashAttentionScore(nn.Cell):
    """The primitive of that name, which attention of the dense warm-up makes."""

    def __init__(
        self, head_num, keep_prob=1.0, scale_value=1.0, pre_tokens=2147483647,
        next_tokens=2147483647, inner_precise=0, input_layout="BSH", sparse_mode=0,
    ):  # fmt: skip
        super().__init__()
        self.heads, self.options = head_num, {
            "keep_prob": keep_prob, "scalar_value": scale_value, "pre_tokens": pre_tokens,
            "next_tokens": next_tokens, "input_layout": input_layout, "sparse_mode": sparse_mode,
        }  # fmt: skip

    def construct(
        self, query, key, value, real_shift=None, drop_mask=None, padding_mask=None,
        attn_mask=None, prefix=None, actual_seq_qlen=None, actual_seq_kvlen=None,
    ):  # fmt: skip
        """Maximum and sum of the softmax, None, and the output."""
        out, top, total = nsa.flash_attention_score(
            query, key, value, self.heads, real_shift=real_shift, drop_mask=drop_mask,
            padding_mask=padding_mask, attn_mask=attn_mask, prefix=prefix,
            actual_seq_qlen=actual_seq_qlen, actual_seq_kvlen=actual_seq_kvlen,
            return_softmax=True, **self.options,
        )  # fmt: skip
        return top, total, None, out


class _Nothing:
    """Stands in for classes that Tensors are compared with, and that plans of layers use."""

    def __init__(self, *arguments, **options):
        pass


class _Module(ModuleType):
    """Has a class of every name that is asked for; the module of operators has these alone."""

    def __getattr__(self, name):
        if name.startswith("__") or self.__name__ == OPERATORS:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        made = type(name, (_Nothing,), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class _Finder(MetaPathFinder, Loader):
    """Finds hyper_parallel where it is not installed, else its module of operators alone."""

    def __init__(self, installed):
        self.installed = installed

    def find_spec(self, fullname, path, target=None):
        """See importlib."""
        known = fullname == OPERATORS or not self.installed
        if known and fullname.partition(".")[0] == PARALLEL:
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        """See importlib."""
        return _Module(spec.name)

    def exec_module(self, module):
        """See importlib."""
        if module.__name__ == OPERATORS:
            vars(module).update(SERVED)


_MINT = (
    *("arange", "chunk", "clamp", "full", "index_select", "ones_like", "outer", "roll", "scatter"),
    *("scatter_add", "split", "stack", "topk", "tril", "triu", "zeros_like"),
)
_ABSENT = object()
# While something is served: the finder, and what stood where, as (owner, name, value).
_serving = []


def _names():
    """(owner, name, what is put there)."""
    for name in _MINT:
        yield mint, name, getattr(_mint, name)
    yield mint.nn.functional, "layer_norm", _mint.layer_norm
    yield ops, "rms_norm", _mint.rms_norm
    yield ops, "lightning_indexer", nsa.lightning_indexer
    yield ops, "sparse_flash_attention", nsa.sparse_flash_attention
    yield nn_ops, "FlashAttentionScore", FlashAttentionScore
    for name in ("detach", "fill_", "mul_", "normal_", "zero_"):
        yield Tensor, name, getattr(_mint, name)


def _drop_modules(*prefixes):
    for name in list(sys.modules):
        if any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes):
            dropped = sys.modules.pop(name)
            # Else `from package import module` would give the one that was dropped.
            package, _, last = name.rpartition(".")
            if vars(sys.modules.get(package, object)).get(last) is dropped:
                delattr(sys.modules[package], last)


def serve(function):
    """See `mindformers.serve_cpu`."""
    if _serving:
        return
    if (got := version_of("mindformers")) != VERSION:
        raise ImportError(f"{function} needs mindformers {VERSION}, got {got}")
    if (device := mindspore.get_context("device_target")) != "CPU":
        raise RuntimeError(
            f"{function}: device_target must be CPU, elsewhere MindFormers has its own operators, "
            f"got {device}"
        )
    early = [name for name in (f"{_MODULES}.transformers", OPERATORS) if name in sys.modules]
    if early:
        raise RuntimeError(
            f"{function}: must be called before modules take the names that it serves, got "
            f"{early[0]} imported"
        )
    finder = _Finder(importlib.util.find_spec(PARALLEL) is not None)
    sys.meta_path.insert(0, finder)
    _serving.append(finder)
    for owner, name, value in _names():
        _serving.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)


def stop():
    """See `mindformers.stop_serving_cpu`."""
    if not _serving:
        return
    finder, *names = _serving
    _serving.clear()
    sys.meta_path.remove(finder)
    for owner, name, value in names:
        if value is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, value)
    _drop_modules(_MODULES, *((OPERATORS,) if finder.installed else (PARALLEL,)))
