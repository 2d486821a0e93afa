"""Peers of the operators: matrix products, copies, dense attention of others."""

import time
from functools import partial

import mindspore as ms
import numpy as np
from mindspore import ops

from mindspore_nsa import _native

from . import probe
from .machine import available_memory
from .program import compiled, finished, tensor

# Bytes of memory per score (N * S * S) that dense attention made of separate operators takes: the
# growth of VmHWM. MindSpore's memory pool does not use the memory of one operator for the next, and
# its float16 operators compute in float32.
DENSE_BYTES = {
    "float32": {"forward": 25, "backward": 45},
    "float16": {"forward": 27, "backward": 87},
}
# Part of the free memory that a peer may take.
MEMORY_SHARE = 0.8


class DoesNotFit(Exception):
    """A peer that cannot run here; the text says why, for the table."""


def torch_module():
    """PyTorch, or None: it is compared with where it is installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def _fastest(functions, repeats=5):
    """(name, function) of the least of a few times."""
    best = {}
    for name, function in functions.items():
        function()
        for _ in range(repeats):
            begin = time.perf_counter()
            function()
            best[name] = min(best.get(name, np.inf), time.perf_counter() - begin)
    name = min(best, key=best.get)
    return name, functions[name]


def fastest_gemm(size):
    """(name, function) of the fastest product of two float32 matrices [size, size]."""
    a, b = np.random.default_rng(0).standard_normal((2, size, size), np.float32)
    out = np.empty_like(a)
    ours = [ms.Tensor.from_numpy(x) for x in (a, b)]
    graph = compiled(ops.MatMul())
    functions = {
        "numpy": lambda: np.matmul(a, b, out=out),
        "mindspore": lambda: finished(graph, *ours),
    }
    torch = torch_module()
    if torch is not None:
        torch.set_num_threads(_native.num_threads())
        theirs = [torch.from_numpy(x) for x in (a, b, out)]
        functions["torch"] = lambda: torch.mm(theirs[0], theirs[1], out=theirs[2])
    return _fastest(functions)


def bfloat16_gemm(size):
    """The product of two bfloat16 matrices [size, size], which PyTorch has on a CPU."""
    torch = torch_module()
    torch.set_num_threads(_native.num_threads())
    a, b = (torch.randn(size, size, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out)


def fastest_copy(nbytes):
    """(name, function) of the faster copy of so many bytes: one memcpy per thread, or many."""
    to, source = probe.copy_buffers(nbytes)
    pieces = {"whole": nbytes, "pieces": 16384}
    return _fastest(
        {n: partial(probe.copy, to, source, p, _native.num_threads()) for n, p in pieces.items()}
    )


def _require(nbytes):
    if nbytes > MEMORY_SHARE * available_memory():
        raise DoesNotFit(f"{nbytes / 1e9:.0f} GB")


def mindspore_dense(query, key, value, scale, direction):
    """Dense causal attention of MindSpore's operators in one graph; inputs [1, N, S, D].

    The function of direction "backward" runs forward and backward.
    """
    if isinstance(query, tuple):
        raise DoesNotFit("no bf16")
    heads, tokens = query.shape[1:3]
    _require(heads * tokens**2 * DENSE_BYTES[query.dtype.name][direction])
    mask = np.triu(np.full((tokens, tokens), np.finfo(query.dtype).min, query.dtype), 1)
    q, k, v, mask = map(tensor, (query, key, value, mask))
    scores_of, out_of = ops.BatchMatMul(transpose_b=True), ops.BatchMatMul()
    softmax, factor = ops.Softmax(-1), ms.Tensor(scale, q.dtype)

    def attention(q, k, v):
        return out_of(softmax(scores_of(q * factor, k) + mask), v)

    if direction == "forward":
        graph = compiled(attention)
        return lambda: finished(graph, q, k, v)
    dy = ms.Tensor.from_numpy(np.ones_like(query))
    gradient = ops.GradOperation(get_all=True, sens_param=True)

    def both(q, k, v, dy):
        return gradient(attention)(q, k, v, dy)

    graph = compiled(both)
    return lambda: finished(graph, q, k, v, dy)


def torch_dense(query, key, value, scale, direction):
    """PyTorch's scaled_dot_product_attention, causal; direction as in `mindspore_dense`."""
    torch = torch_module()
    if torch is None:
        raise DoesNotFit("no torch")
    torch.set_num_threads(_native.num_threads())

    q, k, v = (_torch_tensor(torch, x) for x in (query, key, value))
    attention = partial(
        torch.nn.functional.scaled_dot_product_attention, is_causal=True, scale=scale
    )
    if direction == "forward":

        def forward():
            with torch.no_grad():
                attention(q, k, v)

        return forward
    inputs = [x.requires_grad_() for x in (q, k, v)]
    dy = torch.ones_like(q)

    def both():
        torch.autograd.grad(attention(*inputs), inputs, dy)

    return both


def torch_blocks(case):
    """PyTorch's products, maxima of blocks and top-k of a BlockIndexer case with score "max".

    Queries go in parts, whose scores of all keys are in memory at a time.
    """
    torch = torch_module()
    if torch is None:
        raise DoesNotFit("no torch")
    if case.attrs["score"] != "max":
        raise DoesNotFit("another score")
    torch.set_num_threads(_native.num_threads())
    named, attrs = case.named(), case.attrs
    query, key = (_torch_tensor(torch, named[name]) for name in ("query", "key"))
    (offset,), (keys,) = (named[name].tolist() for name in ("q_offset", "actual_seq_kvlen"))
    block, count, part = attrs["block_size"], attrs["block_count"], 256
    padding = -keys % block

    def choose():
        with torch.no_grad():
            for begin in range(0, len(query), part):
                rows = query[begin : begin + part].transpose(0, 1)
                scores = torch.matmul(rows, key[:, 0].T).float() * attrs["scale"]
                positions = offset + begin + torch.arange(rows.shape[1])
                scores.masked_fill_(torch.arange(keys) > positions[:, None], -torch.inf)
                scores = torch.nn.functional.pad(scores, (0, padding), value=-torch.inf)
                best = scores.unflatten(-1, (-1, block)).amax(-1)
                own = (positions // block)[None, :, None].expand(len(best), -1, 1)
                torch.topk(best.scatter_(-1, own, torch.inf), min(count, best.shape[-1]))

    return choose


def _torch_losses(case):
    """PyTorch, the tensors of an indexer's loss, attention with ropes, and the indexer."""
    torch = torch_module()
    if torch is None:
        raise DoesNotFit("no torch")
    torch.set_num_threads(_native.num_threads())
    named = {name: x for name, x in case.named().items() if x is not None}
    t = {name: _torch_tensor(torch, x)[0] for name, x in named.items()}
    attention = [torch.cat((t[n], t[f"{n}_rope"]), -1) for n in ("query", "key")]
    indexer = [t[name].requires_grad_() for name in ("query_index", "key_index", "weights")]
    return torch, t, attention, indexer


def torch_dense_kl_loss(case):
    """PyTorch's products of a KL loss over all keys, with the gradients of the indexer.

    The scores of all heads of a query are in memory at a time.
    """
    torch, t, (query, key), indexer = _torch_losses(case)
    scale, (queries, keys) = case.attrs["scale_value"], (len(query), len(key))

    def both():
        q_index, k_index, weights = indexer
        loss = 0
        for row in range(queries):
            seen = keys - queries + 1 + row
            with torch.no_grad():
                scores = torch.einsum("hd,khd->hk", query[row], key[:seen]).float() * scale
                p = ((scores - t["softmax_max"][:, row]).exp() / t["softmax_sum"][:, row]).mean(0)
            products = torch.matmul(q_index[row], k_index[:seen, 0].T).float()
            scores = torch.matmul(weights[row], products.relu())
            loss = loss + torch.xlogy(p, p).sum() - (p * scores.log_softmax(-1)).sum()
        torch.autograd.grad(loss, indexer)

    return both


def torch_sparse_kl_loss(case):
    """PyTorch's gather and products of a KL loss over picks, with the gradients of the indexer.

    Query by query: the rows that all of them gather would be some hundred gigabytes of a text.
    """
    torch, t, (query, key), indexer = _torch_losses(case)
    scale, key = case.attrs["scale_value"], key[:, 0]
    top, total = (t[name][0, ..., None] for name in ("softmax_max", "softmax_sum"))

    def both():
        q_index, k_index, weights = indexer
        loss = 0
        for row, picks in enumerate(t["sparse_indices"][:, 0].long()):
            with torch.no_grad():
                scores = torch.matmul(query[row], key[picks].T).float() * scale
                p = ((scores - top[row]).exp() / total[row]).mean(0)
            products = torch.matmul(q_index[row], k_index[picks, 0].T).float()
            scores = torch.matmul(weights[row], products.relu())
            loss = loss + torch.xlogy(p, p).sum() - (p * scores.log_softmax(-1)).sum()
        torch.autograd.grad(loss, indexer)

    return both


def torch_lightning_indexer(case, direction):
    """PyTorch's products, sum over heads and top-k; "backward" adds the gradient at the picks.

    A few queries at a time: the scores of all heads are in memory.
    """
    torch = torch_module()
    if torch is None:
        raise DoesNotFit("no torch")
    torch.set_num_threads(_native.num_threads())
    named, count, part = case.named(), case.attrs["sparse_count"], 8
    tensors = [_torch_tensor(torch, named[name])[0] for name in ("query", "key", "weights")]
    query, key, weights = (x.requires_grad_() for x in tensors)
    queries, keys = len(query), len(key)

    def picked(begin):
        rows = query[begin : begin + part]
        products = torch.matmul(rows, key[:, 0].T).relu().float()
        scores = torch.einsum("qh,qhk->qk", weights[begin : begin + part], products)
        last = keys - queries + begin + torch.arange(len(rows))
        scores.masked_fill_(torch.arange(keys) > last[:, None], -torch.inf)
        return torch.topk(scores, count).indices

    def step():
        values = []
        for begin in range(0, queries, part):
            with torch.no_grad():
                picks = picked(begin)
            if direction == "backward":
                for row, own in enumerate(picks, begin):
                    products = torch.matmul(query[row], key[own, 0].T).relu().float()
                    values.append(torch.matmul(weights[row], products).sum())
        if values:
            torch.autograd.grad(torch.stack(values).sum(), (query, key, weights))

    return step


def torch_sparse_attention(case, direction):
    """PyTorch's gather, products and softmax over picks; "backward" adds all gradients.

    Query by query: the rows that all of them gather would be some gigabytes.
    """
    torch = torch_module()
    if torch is None:
        raise DoesNotFit("no torch")
    torch.set_num_threads(_native.num_threads())
    names = ("query", "query_rope", "key", "key_rope")
    tensors = [_torch_tensor(torch, case.named()[name])[0] for name in names]
    picks = torch.from_numpy(case.named()["sparse_indices"])[0, :, 0].long()
    query, query_rope, key, key_rope = leaves = [x.requires_grad_() for x in tensors]
    backward, scale = direction == "backward", case.attrs["scale_value"]

    def step():
        total = 0
        with torch.set_grad_enabled(backward):
            for row, own in enumerate(picks):
                latents = key[own, 0]
                keys = torch.cat((latents, key_rope[own, 0]), -1)
                scores = torch.matmul(torch.cat((query[row], query_rope[row]), -1), keys.T)
                out = torch.matmul((scores.float() * scale).softmax(-1).to(keys.dtype), latents)
                total = total + out.float().sum()
        if backward:
            torch.autograd.grad(total, leaves)

    return step


def _torch_tensor(torch, x):
    if isinstance(x, tuple):
        return torch.from_numpy(x[1].view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


DENSE = {"mindspore": mindspore_dense, "torch": torch_dense}
