"""Whole attentions as functions to be timed: NSA, and dense attention in several forms."""

import sys
import time
from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import ops

import mindspore_nsa
from mindspore_nsa import _native
from mindspore_nsa.ops._layer import nsa_mix_branches

from . import check, machine, peers, timing, workloads
from .lengths import BUDGET, CALLS
from .peers import DoesNotFit
from .program import compiled, finished
from .workloads import COUNT, SELECT, L, S

HEADS, KV_HEADS, DIM, WINDOW = 16, 1, 128, 512
SCALE = DIM**-0.5
SHAPE = (
    f"N={HEADS}/{KV_HEADS} D={DIM} l={L} s={S} l'={SELECT} cnt={COUNT} window={WINDOW}, one text"
)


@dataclass(frozen=True)
class Sizes:
    """Heads, and what a query reads."""

    heads: int = HEADS
    kv_heads: int = KV_HEADS
    dim: int = DIM
    compress: tuple = (L, S)  # tokens of a window, and between two
    select: tuple = (SELECT, COUNT)  # tokens of a block, and blocks of a query
    window: int = WINDOW

    @property
    def scale(self):
        """Scale of the scores."""
        return self.dim**-0.5


PAPER = Sizes()
WARM_UP_TOKENS = 300
OPERATORS = (
    workloads.compress,
    workloads.compress_attention,
    workloads.selected,
    workloads.flash,
)


def _draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _tensors(arrays, dtype):
    return [ms.Tensor(x).astype(getattr(ms, dtype)) for x in arrays]


def _graph(attention, inputs, dy, direction):
    """The compiled function, or with its gradient in all inputs."""
    if direction == "forward":
        graph = compiled(attention)
        return lambda: finished(graph, *inputs)
    gradient = ops.GradOperation(get_all=True, sens_param=True)

    def both(*tensors):
        return gradient(attention)(*tensors)

    graph = compiled(both)
    return lambda: finished(graph, *inputs, dy)


def nsa(tokens, direction, dtype, sizes=PAPER):
    """All of NSA; every branch has keys and values of its own."""
    ends, heads, scale = (tokens,), sizes.heads, sizes.scale
    query, dy = (_draw(seed, tokens, heads, sizes.dim) for seed in (1, 2))
    pairs = [_draw(seed, tokens, sizes.kv_heads, sizes.dim) for seed in range(3, 9)]
    size = sizes.compress[0]
    weights = [np.full((size, sizes.kv_heads), 1 / size, np.float32)] * 2
    logits = _draw(9, tokens, 3 * heads)  # of the gates
    kind = getattr(ms, dtype)

    def attention(query, k_cmp, v_cmp, k_slc, v_slc, k_win, v_win, w_key, w_value, logits):
        k_cmp = mindspore_nsa.nsa_compress(k_cmp, w_key, *sizes.compress, actual_seq_len=ends)
        v_cmp = mindspore_nsa.nsa_compress(v_cmp, w_value, *sizes.compress, actual_seq_len=ends)
        # A cast for each, as in the layer: MindSpore's CPU adds no gradients of bfloat16.
        q_cmp, q_slc, q_win = ops.cast(query, kind), ops.cast(query, kind), ops.cast(query, kind)
        compressed, blocks, _, _ = mindspore_nsa.nsa_compress_attention(
            *(q_cmp, k_cmp, v_cmp, scale, heads, *sizes.compress, *sizes.select),
            actual_seq_qlen=ends,
            causal=True,
            init_blocks=1,
            local_blocks=2,
            importance="overlap",
        )
        selected, _, _ = mindspore_nsa.nsa_selected_attention(
            *(q_slc, k_slc, v_slc, blocks, scale, heads, *sizes.select),
            actual_seq_qlen=ends,
            actual_seq_kvlen=ends,
            causal=True,
        )
        window = mindspore_nsa.flash_attention_score(
            *(q_win, k_win, v_win, heads),
            scalar_value=scale,
            input_layout="TND",
            sparse_mode=4,
            pre_tokens=sizes.window - 1,
            next_tokens=0,
            actual_seq_qlen=ends,
            actual_seq_kvlen=ends,
        )
        return nsa_mix_branches(logits, compressed, selected, window)

    inputs = [ms.Tensor(query), *_tensors([*pairs, *weights], dtype), ms.Tensor(logits)]
    # The sum of the branches is float32, as in the layer.
    return _graph(attention, inputs, ms.Tensor(dy), direction)


def flash_attention_score(tokens, direction, dtype, sizes=PAPER):
    """This package's dense attention."""
    query, dy = (_draw(seed, 1, sizes.heads, tokens, sizes.dim) for seed in (1, 2))
    key, value = (_draw(seed, 1, sizes.kv_heads, tokens, sizes.dim) for seed in (3, 4))

    def attention(query, key, value):
        return mindspore_nsa.flash_attention_score(
            *(query, key, value, sizes.heads),
            scalar_value=sizes.scale,
            input_layout="BNSD",
            sparse_mode=3,
        )

    return _graph(
        attention, _tensors([query, key, value], dtype), *_tensors([dy], dtype), direction
    )


def torch(tokens, direction, dtype):
    """PyTorch's scaled_dot_product_attention, told that the heads share keys and values."""
    module = peers.torch_module()
    if module is None:
        raise DoesNotFit("no torch")
    module.set_num_threads(_native.num_threads())
    query, dy = (_draw(seed, 1, HEADS, tokens, DIM) for seed in (1, 2))
    key, value = (_draw(seed, 1, KV_HEADS, tokens, DIM) for seed in (3, 4))
    kind = getattr(module, dtype)
    inputs = [module.from_numpy(x).to(kind) for x in (query, key, value)]
    dy = module.from_numpy(dy).to(kind)

    def attention(*tensors):
        return module.nn.functional.scaled_dot_product_attention(
            *tensors, is_causal=True, scale=SCALE, enable_gqa=True
        )

    if direction == "forward":

        def forward():
            with module.no_grad():
                attention(*inputs)

        return forward
    inputs = [x.requires_grad_() for x in inputs]
    return lambda: module.autograd.grad(attention(*inputs), inputs, dy)


def mindspore(tokens, direction, dtype):
    """Products and softmax as MindSpore's separate operators."""
    if dtype == "bfloat16":
        raise DoesNotFit("no bf16")
    query = _draw(1, 1, HEADS, tokens, DIM)
    key, value = (_draw(seed, 1, KV_HEADS, tokens, DIM) for seed in (3, 4))
    # These operators do not know shared heads.
    repeated = (np.repeat(x, HEADS // KV_HEADS, axis=1) for x in (key, value))
    arrays = [np.ascontiguousarray(x, dtype) for x in (query, *repeated)]
    return peers.mindspore_dense(*arrays, SCALE, "backward" if direction == "both" else direction)


FORMS = {f.__name__: f for f in (nsa, flash_attention_score, torch, mindspore)}


def _seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def time_of(functions, budget=BUDGET):
    """name -> (median time, calls); the functions take turns.

    The first call compiles and asks the system for its memory, so it never counts.
    """
    for function in functions.values():
        function()
    times = {name: [] for name in functions}
    for _ in range(CALLS):
        for name, function in functions.items():
            if not times[name] or sum(times[name]) + times[name][-1] <= budget:
                time.sleep(timing.PAUSE)
                times[name].append(_seconds(function))
    return {name: (timing.median(t), len(t)) for name, t in times.items()}


def _functions(names, tokens, direction, dtype):
    found = {}
    for name in names:
        try:
            found[name] = FORMS[name](tokens, direction, dtype)
        except DoesNotFit:
            continue
    return found


def time_all(names, tokens, dtype):
    """{"seconds": name -> (forward, forward and backward, calls), "shape": text}."""
    for build in OPERATORS:
        if problem := check.problem(build, dtype, "backward"):
            sys.exit(f"{build.__name__} is wrong, so it is not measured: {problem}")
    forward = time_of(_functions(names, tokens, "forward", dtype))
    both = time_of(_functions(forward, tokens, "both", dtype))
    return {
        "seconds": {
            name: (forward[name][0], both[name][0], min(forward[name][1], both[name][1]))
            for name in forward
            if name in both
        },
        "shape": f"{SHAPE}, {dtype}",
    }


def memory_of(names, tokens, dtype):
    """{"bytes": what forward and backward of one attention need at once beyond their inputs}."""
    (name,) = names
    FORMS[name](WARM_UP_TOKENS, "both", dtype)()
    function = FORMS[name](tokens, "both", dtype)
    machine.reset_peak()
    before = machine.status_bytes("VmRSS")
    function()
    return {"bytes": machine.status_bytes("VmHWM") - before}
