"""Cases of a call's cost on tiny inputs, over that of a Custom that does nothing."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import ops

import mindspore_nsa
from mindspore_nsa import _native
from mindspore_nsa.ops._custom import absent, encode_attrs, native_custom

from . import check, decoding, indexer_losses, indexers, probe, timing, workloads
from .program import compiled, finished
from .result import Result

RATIO_LIMIT = 1.5
CHAIN = 100
PARTS = 5
# One token, one head, the smallest window and block: every first output is like the input that
# `place` names, so that a graph can be a chain of calls.
LIST = (1,)
ENDS = ms.Tensor(LIST, ms.int64)
ROW = ms.Tensor(np.ones((1, 1, 8), np.float32))
ROWS = ms.Tensor(np.ones((1, 1, 1, 8), np.float32))
CACHE = ms.Tensor(np.ones((1, 1, 8), np.float32))
FIRST = (0,)
START = ms.Tensor(FIRST, ms.int64)
GATES = ms.Tensor(np.ones((1, 3, 1), np.float32))
WEIGHT = ms.Tensor(np.ones((1, 1), np.float32))
BLOCK = ms.Tensor(np.zeros((1, 1, 1), np.int32))
HEADS = ms.Tensor(np.ones((1, 1, 1), np.float32))
SCORES = ms.Tensor(np.ones((1, 1, 1, 1), np.float32))
PICKS = ms.Tensor(np.zeros((1, 1, 1, 1), np.int32))
NONE, NO_LIST = absent(), absent("int64")

WINDOW = {"compress_block_size": 1, "compress_stride": 1}
SELECTION = {
    "scale_value": 1.0,
    "head_num": 1,
    "select_block_size": 1,
    "select_block_count": 1,
    "causal": 1,
}
INFER = {
    "scale_value": 1.0,
    "head_num": 1,
    "key_value_head_num": 1,
    "select_block_size": 1,
    "select_block_count": 1,
}
PAGE = {"page_block_size": 1}
DECODE = {
    "scale_value": 1.0,
    "head_num": 1,
    "select_block_size": 1,
    "select_block_count": 1,
    "window_size": 1,
}
FLASH = {"head_num": 1, "input_layout": "BSND"}


def _compress(x, weight):
    return mindspore_nsa.nsa_compress(x, weight, 1, 1, actual_seq_len=LIST)


def _compress_attention(query, key, value):
    return mindspore_nsa.nsa_compress_attention(
        query, key, value, 1.0, 1, 1, 1, 1, 1, actual_seq_qlen=LIST, causal=True
    )[0]


def _selected(query, key, value, indices):
    return mindspore_nsa.nsa_selected_attention(
        *(query, key, value, indices, 1.0, 1, 1, 1),
        actual_seq_qlen=LIST,
        actual_seq_kvlen=LIST,
        causal=True,
    )[0]


def _compress_with_cache(x, weight):
    return mindspore_nsa.nsa_compress_with_cache(
        x, weight, FIRST, 1, 1, 1, actual_seq_len=LIST, cache=CACHE
    )


def _compress_infer(query, key, value):
    return mindspore_nsa.nsa_compress_attention_infer(
        query, key, value, 1.0, 1, 1, 1, 1, 1, 1, 1, actual_cmp_seq_kvlen=LIST
    )[0]


def _selected_infer(query, key, value, indices):
    return mindspore_nsa.nsa_selected_attention_infer(
        *(query, key, value, indices, 1.0, 1, 1, 1, 1, 1), layout="TND", actual_seq_kvlen=LIST
    )


def _decode(query, gates, *caches):
    return mindspore_nsa.nsa_decode(
        query, gates, *caches, 1.0, 1, 1, 1, 1, 1, 1, actual_seq_kvlen=LIST
    )


def _flash(query, key, value):
    return mindspore_nsa.flash_attention_score(query, key, value, 1, input_layout="BSND")


def _index(query, key):
    return mindspore_nsa.block_indexer(
        query, key, score="max", block_size=1, block_count=1, actual_seq_qlen=LIST,
        actual_seq_kvlen=LIST)  # fmt: skip


def _pick(query, key, weights):
    return mindspore_nsa.lightning_indexer(query, key, weights, sparse_count=1)[0]


def _sparse(query, key, value, indices):
    return mindspore_nsa.sparse_flash_attention(query, key, value, indices, 1.0)[0]


def _learn(query, key, query_index, key_index, weights, *statistics):
    return mindspore_nsa.sparse_lightning_indexer_grad_kl_loss(
        query, key, query_index, key_index, weights, *statistics, 1.0
    )[0]


def _learn_all(query, key, query_index, key_index, weights, *statistics):
    return mindspore_nsa.dense_lightning_indexer_grad_kl_loss(
        query, key, query_index, key_index, weights, *statistics, 1.0
    )[0]


def _index_log_sum(query_index, key_index, weights):
    return mindspore_nsa.dense_lightning_indexer_softmax_lse(query_index, key_index, weights)[0]


@dataclass(frozen=True)
class OverheadCase:
    """Calls of one operator, by its public function or, for a gradient, as the bprop calls it."""

    name: str
    operator: str
    build: Callable  # of workloads.py, for the check
    direction: str
    graph: bool  # a graph of CHAIN calls; else PyNative
    inputs: tuple  # native, in order
    attrs: dict
    function: Callable | None = None  # public, of the first native inputs
    arguments: int = 0  # how many of them
    # Input that takes the first output of the call before; None: that is like none of them, and a
    # call only waits for it.
    place: int | None = 0

    kind = "overhead"
    dtype = "float32"

    def problem(self):
        """Why the operator cannot be measured, or None."""
        return check.problem(self.build, self.dtype, self.direction)

    def run(self, settings):
        """A `Result`."""
        ms.set_context(mode=ms.GRAPH_MODE if self.graph else ms.PYNATIVE_MODE)
        schema = _native.schema(self.operator)
        outputs = len(schema["outputs"])
        names = [spec["name"] for spec in schema["inputs"]]
        given = [n for n, x in zip(names, self.inputs) if x is not NONE and x is not NO_LIST]
        attrs = encode_attrs(self.operator, self.attrs, given)
        if self.function is not None:
            calls = [(self.function, self.inputs[: self.arguments])]
        else:
            calls = [(_first(native_custom(self.operator, attrs, None), outputs), self.inputs)]
        for custom in (probe.empty_custom(outputs), probe.timed_custom(self.operator, attrs)):
            calls.append((_first(custom, outputs), self.inputs))
        if self.graph:
            calls = [(_chain(function, self.place), tensors) for function, tensors in calls]
        times, in_kernel = _alternate(calls, 50 if settings.quick else 1000)
        ours, nothing, _ = (statistics.median(t) / (CHAIN if self.graph else 1) for t in times)
        return Result.of(
            self,
            shape=f"{len(self.inputs)} inputs, {outputs} outputs",
            seconds=ours,
            kernel_seconds=statistics.median(in_kernel),
            empty_seconds=nothing,
            ratio=ours / nothing,
            spread=timing.spread(_parts(*times[:2])),
            ratio_limit=RATIO_LIMIT,
        )


def _first(custom, outputs):
    """A function of the Custom's first output."""
    if outputs == 1:
        return custom

    def function(*tensors):
        return custom(*tensors)[0]

    return function


def _chain(function, place):
    def chain(*tensors):
        x = tensors[place or 0]
        for _ in range(CHAIN):
            if place is None:
                x = function(ops.depend(tensors[0], x), *tensors[1:])
            else:
                x = function(*tensors[:place], x, *tensors[place + 1 :])
        return x

    graph = compiled(chain)
    return lambda *tensors: finished(graph, *tensors)


def _alternate(calls, repeats):
    """Times of the calls, in turn, after a warm-up; and in the native function of the last one."""
    times, in_kernel = [[] for _ in calls], []
    for i in range(-10, repeats):
        for mine, (function, tensors) in zip(times, calls, strict=True):
            begin = time.perf_counter()
            function(*tensors)
            if i >= 0:
                mine.append(time.perf_counter() - begin)
        in_kernel.append(probe.kernel_seconds())
    return times, in_kernel


def _parts(ours, nothing):
    """The ratio in each of five parts of the run, as if they were rounds."""
    size = len(ours) // PARTS
    parts = [slice(i * size, (i + 1) * size) for i in range(PARTS)]
    return [statistics.median(ours[part]) / statistics.median(nothing[part]) for part in parts]


# (name, operator, build, direction, what else an OverheadCase takes)
_CALLS = (
    ("compress", "NsaCompress", workloads.compress, "forward",
     {"inputs": (ROW, WEIGHT, ENDS), "attrs": WINDOW, "function": _compress, "arguments": 2}),
    ("compress", "NsaCompressGrad", workloads.compress, "backward",
     {"inputs": (ROW, ROW, WEIGHT, ENDS), "attrs": WINDOW}),
    ("compress_attention", "NsaCompressAttention", workloads.compress_attention, "forward",
     {"inputs": (ROW, ROW, ROW, NONE, NONE, ENDS, ENDS, NO_LIST, NO_LIST),
      "attrs": {**SELECTION, **WINDOW}, "function": _compress_attention, "arguments": 3}),
    ("selected", "NsaSelectedAttention", workloads.selected, "forward",
     {"inputs": (ROW, ROW, ROW, BLOCK, ENDS, ENDS, NO_LIST), "attrs": SELECTION,
      "function": _selected, "arguments": 4}),
    ("selected", "NsaSelectedAttentionGrad", workloads.selected, "backward",
     {"inputs": (*(ROW,) * 7, BLOCK, ENDS, ENDS, NO_LIST, NONE), "attrs": SELECTION, "place": 4}),
    ("block_indexer", "BlockIndexer", indexers.of_method(indexers.MSA), "forward",
     {"inputs": (ROW, ROW, NONE, ENDS, ENDS, NO_LIST), "attrs": {"block_size": 1, "block_count": 1},
      "function": _index, "arguments": 2, "place": None}),
    ("lightning_indexer", "LightningIndexer", indexers.lightning_indexer, "forward",
     {"inputs": (ROWS, ROWS, HEADS, NO_LIST, NO_LIST, NO_LIST, NONE), "attrs": {"sparse_count": 1},
      "function": _pick, "arguments": 3, "place": None}),
    ("lightning_indexer", "LightningIndexerGrad", indexers.lightning_indexer, "backward",
     {"inputs": (ROWS, ROWS, SCORES, PICKS, HEADS, NO_LIST, NO_LIST), "attrs": {}}),
    ("sparse_attention", "SparseFlashAttention", indexers.sparse_attention, "forward",
     {"inputs": (ROWS, ROWS, ROWS, PICKS, *(NONE,) * 3, NO_LIST, NO_LIST, NONE),
      "attrs": {"scale_value": 1.0}, "function": _sparse, "arguments": 4}),
    ("sparse_attention", "SparseFlashAttentionGrad", indexers.sparse_attention, "backward",
     {"inputs": (ROWS, ROWS, ROWS, PICKS, ROWS, ROWS, *(NONE,) * 3, NO_LIST, NO_LIST, NONE),
      "attrs": {"scale_value": 1.0}, "place": 5}),
    ("sparse_kl_loss", "SparseLightningIndexerGradKLLoss", indexer_losses.sparse_kl_loss, "forward",
     {"inputs": (*(ROWS,) * 4, HEADS, PICKS, SCORES, SCORES, NONE, NONE, NO_LIST, NO_LIST),
      "attrs": {"scale_value": 1.0}, "function": _learn, "arguments": 8}),
    ("dense_kl_loss", "DenseLightningIndexerGradKLLoss", indexer_losses.dense_kl_loss, "forward",
     {"inputs": (*(ROWS,) * 4, HEADS, SCORES, SCORES, HEADS, HEADS, NONE, NONE, NO_LIST, NO_LIST),
      "attrs": {"scale_value": 1.0}, "function": _learn_all, "arguments": 9}),
    ("softmax_lse", "DenseLightningIndexerSoftmaxLse", indexer_losses.softmax_lse, "forward",
     {"inputs": (ROWS, ROWS, HEADS, NO_LIST, NO_LIST), "attrs": {}, "function": _index_log_sum,
      "arguments": 3, "place": 2}),
    ("compress_with_cache", "NsaCompressWithCache", decoding.compress, "forward",
     {"inputs": (ROW, WEIGHT, START, NONE, ENDS, CACHE), "attrs": {**WINDOW, **PAGE},
      "function": _compress_with_cache, "arguments": 2}),
    ("compress_infer", "NsaCompressAttentionInfer", decoding.compress_attention, "forward",
     {"inputs": (ROW, ROWS, ROWS, NONE, NO_LIST, ENDS, NO_LIST),
      "attrs": {**INFER, **WINDOW, **PAGE, "layout": "TND"}, "function": _compress_infer,
      "arguments": 3}),
    ("selected_infer", "NsaSelectedAttentionInfer", decoding.dense, "forward",
     {"inputs": (ROW, ROWS, ROWS, BLOCK, NONE, NO_LIST, ENDS),
      "attrs": {**INFER, **PAGE, "layout": "TND"}, "function": _selected_infer, "arguments": 4}),
    ("decode", "NsaDecode", decoding.decode, "forward",
     {"inputs": (ROW, GATES, *(ROWS,) * 6, NONE, NONE, NO_LIST, ENDS),
      "attrs": {**DECODE, **WINDOW}, "function": _decode, "arguments": 8}),
    ("flash", "FlashAttentionScore", workloads.flash, "forward",
     {"inputs": (ROWS, ROWS, ROWS, *(NONE,) * 3, *(NO_LIST,) * 3, NONE, NO_LIST, NO_LIST),
      "attrs": FLASH, "function": _flash, "arguments": 3}),
    ("flash", "FlashAttentionScoreGrad", workloads.flash, "backward",
     {"inputs": (*(ROWS,) * 4, *(NONE,) * 3, *(ROWS,) * 3, *(NO_LIST,) * 3, NONE, NO_LIST, NONE,
                 NO_LIST, NO_LIST),
      "attrs": FLASH, "place": 3}),
)  # fmt: skip


def overhead_cases():
    """Every operator, in PyNative mode and in a graph."""
    return [
        OverheadCase(
            f"overhead_{name}_{direction}_{'graph' if graph else 'pynative'}",
            *(operator, build, direction, graph),
            **more,
        )
        for name, operator, build, direction, more in _CALLS
        for graph in (False, True)
    ]
