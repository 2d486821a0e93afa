"""Cases of one new token: bytes that it must read over time, beside the machine's own reading.

Caches that a call has read would be in the processor's cache at the next one, which a stack of
layers never sees: every call has caches of its own until together they are larger than that.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle

import mindspore as ms
import numpy as np

from mindspore_nsa import _native
from mindspore_nsa.nn import NativeSparseAttention, NSAConfig
from mindspore_nsa.nn.cache_state import STATE, angles_of, sizes_of, state_of
from mindspore_nsa.ops._cache_step import nsa_cache_step
from mindspore_nsa.reference.rows import windows
from mindspore_nsa.testing.case import Case
from mindspore_nsa.testing.dtypes import encode

from . import check, layer, peers, probe, timing
from .program import Program, compiled, finished, tensor
from .result import Result
from .workloads import COUNT, SELECT, L, S, Workload, nbytes

HEADS, KV_HEADS, DIM, WINDOW = 64, 4, 128, 512
RULE = {
    "compress_block_size": L,
    "compress_stride": S,
    "select_block_size": SELECT,
    "select_block_count": COUNT,
    "init_blocks": 1,
    "local_blocks": 2,
    "importance": "overlap",
}
SCALE = {"scale_value": float(np.float32(DIM**-0.5)), "head_num": HEADS}
# Larger than what the machines at hand keep in their last cache: of 480 MB of one it was 64.
COLD_BYTES, MOST_COPIES = 256 << 20, 72
# By so many tokens the dense cache grows before it goes back.
DENSE_STEPS = 64


def _draw(rng, dtype, *shape):
    return encode(rng.standard_normal(shape, np.float32), dtype)


def _pair(rng, dtype, rows, *shape):
    """Keys and values; the rows of a batch hold the same numbers, each in memory of its own."""
    return [_repeated(_draw(rng, dtype, 1, *shape), rows) for _ in range(2)]


def _repeated(x, rows):
    return (x[0], _repeated(x[1], rows)) if isinstance(x, tuple) else np.repeat(x, rows, 0)


def _workload(case, read, shape):
    return Workload(case, None, shape, "B", {"forward": read})


def decode(tokens, dtype, batch=1, seed=1):
    """NsaDecode of one token per row; a row's tokens are `tokens`."""
    rng = np.random.default_rng(seed)
    count, ring = windows(tokens, L, S), min(tokens, WINDOW)
    # A short sequence has fewer blocks than a query may read: then all are read.
    inputs = {
        "query": _draw(rng, dtype, batch, HEADS, DIM),
        "gates": rng.random((batch, 3, HEADS), np.float32),
        "actual_seq_kvlen": np.full(batch, tokens),
    }
    for branch, size in (("cmp", count), ("slc", tokens), ("win", ring)):
        shape = (batch, KV_HEADS, size, DIM)
        inputs[f"key_{branch}"], inputs[f"value_{branch}"] = _pair(rng, dtype, *shape)
    attrs = {**SCALE, **RULE, "window_size": WINDOW, "cache_layout": "BNSD"}
    keys = count + min(tokens, COUNT * SELECT) + ring
    read = batch * keys * KV_HEADS * 2 * DIM * (4 if dtype == "float32" else 2)
    shape = f"S={tokens} B={batch} N={HEADS}/{KV_HEADS} D={DIM}"
    return _workload(Case.of("NsaDecode", inputs, attrs, dtype), read, shape)


def _infer_inputs(rng, dtype, keys):
    key, value = _pair(rng, dtype, 1, keys, KV_HEADS, DIM)
    return {"query": _draw(rng, dtype, 1, HEADS, DIM), "key": key, "value": value}


_INFER = {**SCALE, "key_value_head_num": KV_HEADS, "layout": "TND"}


def compress_attention(tokens, dtype, seed=1):
    """NsaCompressAttentionInfer of one token."""
    count = windows(tokens, L, S)
    inputs = _infer_inputs(np.random.default_rng(seed), dtype, count)
    inputs["actual_cmp_seq_kvlen"] = np.array([count])
    inputs["actual_sel_seq_kvlen"] = np.array([tokens])
    attrs = {**_INFER, **RULE, "page_block_size": count}
    read = nbytes([inputs["key"], inputs["value"]])
    case = Case.of("NsaCompressAttentionInfer", inputs, attrs, dtype)
    return _workload(case, read, f"S={tokens} N={HEADS}/{KV_HEADS} D={DIM}")


def dense(tokens, dtype, seed=1):
    """NsaSelectedAttentionInfer of one token over all blocks: dense attention."""
    inputs = _infer_inputs(np.random.default_rng(seed), dtype, tokens)
    blocks = -(-tokens // SELECT)
    chosen = np.broadcast_to(np.arange(blocks, dtype=np.int32), (1, KV_HEADS, blocks))
    inputs["topk_indices"] = np.ascontiguousarray(chosen)
    inputs["actual_seq_kvlen"] = np.array([tokens])
    attrs = {
        **_INFER,
        "select_block_size": SELECT,
        "select_block_count": blocks,
        "page_block_size": tokens,
    }
    read = nbytes([inputs["key"], inputs["value"]])
    case = Case.of("NsaSelectedAttentionInfer", inputs, attrs, dtype)
    return _workload(case, read, f"S={tokens} N={HEADS}/{KV_HEADS} D={DIM}")


def compress(tokens, dtype, seed=1):
    """NsaCompressWithCache of a window that the last token fills."""
    rng = np.random.default_rng(seed)
    length = (tokens - L) // S * S + L
    inputs = {
        "input": _draw(rng, dtype, length, KV_HEADS, DIM),
        "weight": _draw(rng, dtype, L, KV_HEADS),
        "slot_mapping": np.array([0]),
        "actual_seq_len": np.array([length]),
        "cache": _draw(rng, dtype, windows(tokens, L, S), KV_HEADS, DIM),
    }
    attrs = {"compress_block_size": L, "compress_stride": S, "page_block_size": length}
    read = nbytes([inputs["input"]]) // length * L
    case = Case.of("NsaCompressWithCache", inputs, attrs, dtype)
    return _workload(case, read, f"S={tokens} N={KV_HEADS} D={DIM} l={L} s={S}")


def _dense_step(tokens, dtype, batch):
    """A step of DenseAttention's cache: a token of every row is written and attends to the row."""
    rng = np.random.default_rng(2)
    # A layer's projections give float32, whatever its cache is of.
    query, key, value = (
        tensor(_draw(rng, "float32", batch, heads, DIM)) for heads in (HEADS, KV_HEADS, KV_HEADS)
    )
    shape = (1, KV_HEADS, tokens + DENSE_STEPS, 2 * DIM)
    cache = tensor(_repeated(_draw(rng, dtype, *shape), batch))
    config = NSAConfig(layer.HIDDEN, HEADS, KV_HEADS, DIM)
    theta, factor, low, high = angles_of(config).values()

    def step(query, key, value, cache, state):
        return nsa_cache_step(
            *(query, key, value, cache, state, None),
            scale_value=SCALE["scale_value"],
            theta=theta,
            rope_factor=factor,
            rope_low=low,
            rope_high=high,
            window_size=2**31,
        )

    graph = compiled(step)

    def before():
        return state_of(sizes_of(config, sparse=False), cache.dtype, [tokens - 1] * batch)

    state = before()
    steps = count()

    def call():
        # Every step makes the rows longer: back to the length that is asked for.
        if next(steps) % DENSE_STEPS == 0:
            state.assign_value(before())
        finished(graph, query, key, value, cache, state)

    return call


def _torch_dense(tokens, dtype, batch):
    """PyTorch's attention of one token; the heads of a group are its queries."""
    torch = peers.torch_module()
    if torch is None:
        raise peers.DoesNotFit("no torch")
    torch.set_num_threads(_native.num_threads())
    kind = {"float32": torch.float32, "bfloat16": torch.bfloat16}[dtype]
    q = torch.randn(batch, KV_HEADS, HEADS // KV_HEADS, DIM).to(kind)
    k, v = (torch.randn(batch, KV_HEADS, tokens, DIM).to(kind) for _ in range(2))

    def call():
        with torch.no_grad():
            torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=SCALE["scale_value"])

    return call


@dataclass(frozen=True)
class DecodeCase:
    """One operator on one new token."""

    name: str
    operator: str
    build: Callable
    dtype: str
    tokens: int
    quick_tokens: int
    batch: int = 1
    against_dense: bool = False
    share: float | None = None  # least share of the bandwidth of reading

    kind = "decode"
    direction = "forward"

    def problem(self):
        """Why the operator cannot be measured, or None."""
        return check.problem(self.build, self.dtype, self.direction)

    def run(self, settings):
        """A `Result`."""
        tokens = self.quick_tokens if settings.quick else self.tokens
        more = {"batch": self.batch} if self.batch > 1 else {}
        first = self.build(tokens, self.dtype, **more)
        read = first.work["forward"]
        copies = min(MOST_COPIES, -(-COLD_BYTES // read))
        others = [self.build(tokens, self.dtype, seed=1 + i, **more) for i in range(1, copies)]
        program = Program(first.forward)
        programs = cycle([program, *(program.on(w.forward) for w in others)])
        kernel_times = []

        def ours():
            next(programs)()
            kernel_times.append(probe.kernel_seconds())

        source = np.ones(COLD_BYTES, np.uint8)
        functions = {"read": partial(probe.read, source, _native.num_threads()), "ours": ours}
        shown = {}
        if self.against_dense:
            reader = probe.reading_custom(source, read, _native.num_threads())
            functions["reader"] = program.instead(reader)
            functions["dense"] = _dense_step(tokens, self.dtype, self.batch)
            if self.batch == 1:
                functions["blocks"] = Program(dense(tokens, self.dtype).forward)
            try:
                functions["torch"] = _torch_dense(tokens, self.dtype, self.batch)
            except peers.DoesNotFit as reason:
                shown["torch"] = str(reason)
        # Many rows at once take long enough for fewer rounds.
        rounds = settings.rounds if self.batch == 1 else math.ceil(settings.rounds / 3)
        times = timing.interleave(functions, rounds, settings.peer_budget)
        for name in times.keys() - {"read", "ours"}:
            shown[name] = timing.median_ratio(times[name], times["ours"])
        seconds = timing.median(times["ours"])
        rate = read / source.nbytes * timing.median_ratio(times["read"], times["ours"])
        return Result.of(
            self,
            shape=first.shape,
            seconds=seconds,
            kernel_seconds=timing.median(kernel_times),
            rate=read / seconds / 1e9,
            unit="GB/s",
            share=rate,
            share_of="read",
            share_of_rate=source.nbytes / timing.median(times["read"]) / 1e9,
            share_target=self.share,
            peers=shown,
            bytes=read,
        )


class Step(ms.nn.Cell):
    """A layer with a cache."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, cache):
        return self.layer(x, cache=cache)


@dataclass(frozen=True)
class LayerStepCase:
    """One new token through the layer, beside NsaDecode and the matrix products, each alone."""

    name: str
    dtype: str
    tokens: int
    quick_tokens: int

    kind = "layer"
    direction = "forward"
    operator = "NativeSparseAttention"
    # Most time of a step, as a multiple of its parts'.
    limit = 1.5

    def problem(self):
        """Why NsaDecode cannot be measured, or None."""
        return check.problem(decode, self.dtype, self.direction)

    def _step(self, config, tokens):
        """A function that adds a token to a cache of random numbers."""
        dtype, net = getattr(ms, self.dtype), Step(NativeSparseAttention(config))
        cache = net.layer.new_cache(1, tokens + DENSE_STEPS, dtype)
        rng = np.random.default_rng(8)
        for caches in cache[STATE + 1 :]:
            drawn = rng.standard_normal(caches.shape, np.float32)
            caches.assign_value(ms.Tensor(drawn).astype(dtype))
        x = ms.Tensor(rng.standard_normal((1, 1, config.hidden_size), np.float32)).astype(dtype)
        sizes, steps = sizes_of(config, sparse=True), count()

        def call():
            if next(steps) % DENSE_STEPS == 0:
                cache[STATE].assign_value(state_of(sizes, dtype, [tokens - 1]))
            finished(net, x, cache)

        return call

    def run(self, settings):
        """A `Result`."""
        ms.set_context(mode=ms.GRAPH_MODE)
        tokens = self.quick_tokens if settings.quick else self.tokens
        config = NSAConfig(layer.HIDDEN, HEADS, KV_HEADS, DIM, window_size=WINDOW)
        functions = {
            "layer": self._step(config, tokens),
            "attention": Program(decode(tokens, self.dtype).forward),
            "products": layer.token_products(config, self.dtype),
        }
        times = timing.interleave(functions, settings.rounds, settings.peer_budget)
        found = {name: timing.median(values) for name, values in times.items()}
        return Result.of(
            self,
            tokens=tokens,
            shape=f"S=1 of {tokens} hidden={layer.HIDDEN} N={HEADS}/{KV_HEADS} D={DIM}",
            seconds=found["layer"],
            attention_seconds=found["attention"],
            product_seconds=found["products"],
            ratio=found["layer"] / (found["attention"] + found["products"]),
            ratio_limit=None if settings.quick else self.limit,
        )


def decode_cases():
    """NsaDecode by length, dtype and batch; the other operators and the layer's step once."""
    cases = [
        DecodeCase(
            f"decode_{dtype}_{tokens // 1024}k" + (f"_batch{batch}" if batch > 1 else ""),
            *("NsaDecode", decode, dtype, tokens, 2048, batch),
            against_dense=True,
            share=0.8,
        )
        for batch in (1, 8)
        for dtype in ("bfloat16", "float32")
        for tokens in (4096, 16384, 65536)
    ]
    cases += [
        LayerStepCase(f"decode_layer_{dtype}", dtype, 4096, 2048)
        for dtype in ("bfloat16", "float32")
    ]
    large = ("bfloat16", 16384, 2048)
    return [
        *cases,
        DecodeCase("decode_compress", "NsaCompressWithCache", compress, *large),
        DecodeCase("decode_importance", "NsaCompressAttentionInfer", compress_attention, *large),
        DecodeCase("decode_dense", "NsaSelectedAttentionInfer", dense, *large),
    ]
