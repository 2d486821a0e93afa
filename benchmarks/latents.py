"""DeepSeek Sparse Attention, its indexer included, against dense attention of the same model (MLA).

The sizes are those of DeepSeek V3.2: 128 heads over latents of 512 with ropes of 64, an indexer of
64 heads of 128, 2,048 tokens picked. Prefill and training are measured on queries in the middle of
a text, which cost what all cost on the mean; dense attention has keys and values of its own for
every head there, as it is computed for many queries, and the latents themselves where one token is
decoded.
"""

from collections.abc import Callable
from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import ops

import mindspore_nsa

from . import check, peak, timing, workloads
from .indexer_losses import sparse_kl_loss
from .indexers import lightning_indexer, sparse_attention
from .program import compiled, finished
from .result import Result

HEADS, LATENT, ROPE, DIM = 128, 512, 64, 128
INDEXER, INDEXER_DIM, PICKS = 64, 128, 2048
PAGE = 128
SCALE = (DIM + ROPE) ** -0.5
# A gradient has five products where the forward has two, of nearly the same size.
BACKWARD = 2.5


@dataclass(frozen=True)
class Sizes:
    """A run of queries that see about so many keys."""

    queries: int
    keys: int
    heads: int = HEADS
    indexer: int = INDEXER
    picks: int = PICKS

    def text(self):
        """The sizes as tables show them."""
        return (
            f"Sq={self.queries} Sk={self.keys} N={self.heads} D={LATENT}+{ROPE} "
            f"H={self.indexer} d={INDEXER_DIM} k={self.picks}"
        )

    def flops(self, absorbed, gradient):
        """(sparse, dense): products of the indexer and of both attentions."""
        seen = self.queries * (self.keys - (self.queries - 1) / 2)
        depth = 2 * LATENT + ROPE if absorbed else 2 * DIM + ROPE
        scores = 2 * self.indexer * INDEXER_DIM
        attended = 2 * self.heads * (2 * LATENT + ROPE) * self.queries * self.picks
        dense = 2 * self.heads * depth * seen
        if not gradient:
            return scores * seen + attended, dense
        # The loss has the attention's scores and the indexer's again, and two gradients of these.
        loss = 2 * self.heads * (LATENT + ROPE) + 3 * scores
        sparse = scores * seen + (1 + BACKWARD) * attended + loss * self.queries * self.picks
        return sparse, (1 + BACKWARD) * dense


def _draw(rng, dtype, *shape):
    return ms.Tensor(rng.standard_normal(shape, np.float32)).astype(getattr(ms, dtype))


def _sparse_inputs(sizes, dtype):
    """Inputs of the attention over latents, and of the indexer."""
    rng = np.random.default_rng(11)
    q, k = (1, sizes.queries), (1, sizes.keys)
    attention = [
        _draw(rng, dtype, *q, sizes.heads, LATENT),
        _draw(rng, dtype, *k, 1, LATENT),
        _draw(rng, dtype, *q, sizes.heads, ROPE),
        _draw(rng, dtype, *k, 1, ROPE),
    ]
    indexer = [
        _draw(rng, dtype, *q, sizes.indexer, INDEXER_DIM),
        _draw(rng, dtype, *k, 1, INDEXER_DIM),
        _draw(rng, "float32", *q, sizes.indexer) / sizes.indexer,
    ]
    return attention, indexer


def _attended(query, key, value, query_rope, key_rope, picks, **more):
    return mindspore_nsa.sparse_flash_attention(
        *(query, key, value, picks, SCALE),
        query_rope=query_rope,
        key_rope=key_rope,
        sparse_mode=3,
        attention_mode=2,
        **more,
    )


def _sparse(sizes, dtype, gradient):
    """A step of sparse attention as a function."""
    attention, indexer = _sparse_inputs(sizes, dtype)

    def forward(q, c, qr, kr, qi, ki, w):
        picks, _ = mindspore_nsa.lightning_indexer(qi, ki, w, sparse_count=sizes.picks)
        return _attended(q, c, c, qr, kr, picks)[0]

    def both(q, c, qr, kr, qi, ki, w):
        picks, _ = mindspore_nsa.lightning_indexer(qi, ki, w, sparse_count=sizes.picks)

        def loss(q, key, value, qr, kr, qi, ki, w):
            out, top, total = _attended(q, key, value, qr, kr, picks, return_softmax_lse=True)
            taught = mindspore_nsa.lightning_indexer_kl_loss(
                *(q, key, qi, ki, w, picks, top, total, SCALE), query_rope=qr, key_rope=kr
            )
            return ops.reduce_sum(out.astype(ms.float32)) + taught

        # Two names of the latents: MindSpore's CPU adds no gradients of bfloat16.
        grads = ms.grad(loss, tuple(range(8)))(q, c, c, qr, kr, qi, ki, w)
        of_latents = ops.cast(grads[1], ms.float32) + ops.cast(grads[2], ms.float32)
        return grads[0], of_latents, *grads[3:]

    graph, tensors = compiled(both if gradient else forward), (*attention, *indexer)
    return lambda: finished(graph, *tensors)


def _paged(sizes, dtype):
    """One token over pages of latents."""
    (q, c, qr, kr), (qi, ki, w) = _sparse_inputs(sizes, dtype)
    pages = sizes.keys // PAGE
    c, kr, ki = (x.reshape(pages, PAGE, 1, -1) for x in (c, kr, ki))
    table = ms.Tensor(np.random.default_rng(12).permutation(pages)[None].astype(np.int32))
    keys = ms.Tensor([sizes.keys], ms.int32)

    def decode(q, c, qr, kr, qi, ki, w, table, keys):
        picks, _ = mindspore_nsa.lightning_indexer(
            *(qi, ki, w),
            actual_seq_lengths_key=keys,
            block_table=table,
            layout_key="PA_BSND",
            sparse_count=sizes.picks,
        )
        pages = {"actual_seq_lengths_kv": keys, "block_table": table, "layout_kv": "PA_BSND"}
        return _attended(q, c, c, qr, kr, picks, **pages)[0]

    graph = compiled(decode)
    return lambda: finished(graph, q, c, qr, kr, qi, ki, w, table, keys)


def _dense(sizes, dtype, gradient, absorbed):
    """A decoding step with dense attention."""
    rng = np.random.default_rng(13)
    heads, depth, width = (1, LATENT + ROPE, LATENT) if absorbed else (sizes.heads, DIM + ROPE, DIM)
    q = _draw(rng, dtype, 1, sizes.queries, sizes.heads, depth)
    k = _draw(rng, dtype, 1, sizes.keys, heads, depth)
    v = _draw(rng, dtype, 1, sizes.keys, heads, width)

    def forward(q, k, v):
        # 3: the queries are the last of the text.
        return mindspore_nsa.flash_attention_score(
            *(q, k, v, sizes.heads), input_layout="BSND", scalar_value=SCALE, sparse_mode=3
        )

    def both(q, k, v):
        def loss(q, k, v):
            return ops.reduce_sum(forward(q, k, v).astype(ms.float32))

        return ms.grad(loss, (0, 1, 2))(q, k, v)

    graph = compiled(both if gradient else forward)
    return lambda: finished(graph, q, k, v)


@dataclass(frozen=True)
class LatentsCase:
    """A step of sparse attention against one of dense attention."""

    name: str
    sizes: Sizes
    quick: Sizes
    dtype: str
    direction: str
    ours: Callable  # of sizes and dtype: a function that takes the step
    dense: Callable
    absorbed: bool = False
    share: float | None = None  # of the speedup that the products allow
    speedup: float | None = None

    kind = "latents"
    operator = "DSA"

    def problem(self):
        """Why it cannot be measured, or None."""
        gradient = self.direction == "both"
        builds = (lightning_indexer, sparse_attention, workloads.flash)
        return check.first_problem(builds, self.dtype, self.direction) or (
            check.problem(sparse_kl_loss, self.dtype, "forward") if gradient else None
        )

    def run(self, settings):
        """A `Result`."""
        sizes = self.quick if settings.quick else self.sizes
        functions = {"ours": self.ours(sizes, self.dtype), "dense": self.dense(sizes, self.dtype)}
        bound = peak.of(self.dtype)
        if bound:
            functions["peak"] = bound.loop
        times = timing.interleave(functions, settings.rounds, settings.peer_budget)
        sparse, dense = sizes.flops(self.absorbed, self.direction == "both")
        seconds = timing.median(times["ours"])
        speedup = timing.median_ratio(times["dense"], times["ours"])
        return Result.of(
            self,
            shape=sizes.text(),
            seconds=seconds,
            speedup=speedup,
            speedup_target=None if settings.quick else self.speedup,
            share=speedup / (dense / sparse),
            share_target=None if settings.quick else self.share,
            share_of="products",
            share_of_rate=dense / sparse,
            **peak.shares(bound, sparse, seconds, times),
            peers={"dense": speedup},
            spread=timing.spread(timing.ratios(times["dense"], times["ours"])),
        )


def latents_cases():
    """Decoding at 64k over pages, prefill and training at 32k."""
    middle, small = Sizes(128, 16384 + 64), Sizes(16, 512, 8, 8, 64)
    return [
        case
        for dtype in ("float32", "bfloat16")
        for case in (
            LatentsCase(
                f"dsa_decode_{dtype}",
                *(Sizes(1, 65536), Sizes(1, 1024, 8, 8, 64), dtype, "forward", _paged),
                lambda sizes, dtype: _dense(sizes, dtype, False, True),
                absorbed=True,
                speedup=6.0,
            ),
            *(
                LatentsCase(
                    f"dsa_{name}_{dtype}",
                    *(middle, small, dtype, "both" if gradient else "forward"),
                    lambda sizes, dtype, gradient=gradient: _sparse(sizes, dtype, gradient),
                    lambda sizes, dtype, gradient=gradient: _dense(sizes, dtype, gradient, False),
                    share=0.8,
                )
                for name, gradient in (("prefill", False), ("training", True))
            ),
        )
    ]
