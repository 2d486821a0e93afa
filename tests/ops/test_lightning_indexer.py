"""lightning_indexer in a network: gradients in every mode, lists, layouts, errors."""

import importlib
import inspect
import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

import mindspore_nsa
from mindspore_nsa import reference
from mindspore_nsa.ops import _plan

from .calls import context_mode, run
from .operators import draw

module = importlib.import_module("mindspore_nsa.ops.lightning_indexer")
BOTH = pytest.mark.parametrize("mode", ["pynative", "graph"])
Q, K, W = draw(2, 12, 4, 16), draw(2, 20, 1, 16), draw(2, 12, 4)


def scores(q, k, w):
    return mindspore_nsa.lightning_indexer(q, k, w, sparse_count=6, return_value=True)[1]


def energy(q, k, w):
    # The last queries see six keys and more.
    return ops.square(scores(q, k, w)).sum()


@BOTH
def test_gradient(mode):
    arrays = [x.asnumpy() for x in (Q, K, W)]
    indices, values = reference.lightning_indexer(*arrays, sparse_count=6, return_value=True)
    assert np.isfinite(values).all()
    expected = reference.lightning_indexer_grad(*arrays[:2], 2 * values, indices, arrays[2])
    ours = run(mode, ms.grad(energy, (0, 1, 2)), Q, K, W)
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(b).max())


@BOTH
def test_without_values_there_is_no_gradient(mode):
    def forward(q, k, w):
        indices, values = mindspore_nsa.lightning_indexer(q, k, w, sparse_count=6)
        return ops.cast(indices, ms.float32).sum() + q.sum(), values

    def total(q, k, w):
        return forward(q, k, w)[0]

    with context_mode(mode):
        assert forward(Q, K, W)[1].shape == (0,)
        grads = ms.grad(total, (0, 1, 2))(Q, K, W)
    assert (grads[0].asnumpy() == 1).all()
    assert not grads[1].asnumpy().any() and not grads[2].asnumpy().any()


@BOTH
def test_vmap(mode):
    q, k, w = draw(3, 1, 9, 4, 16), draw(3, 1, 20, 1, 16), draw(3, 1, 9, 4)
    with context_mode(mode):
        for f in (scores, ms.grad(energy, (0, 1, 2))):
            ours = ops.vmap(f)(q, k, w)
            each = [f(q[i], k[i], w[i]) for i in range(3)]
            if isinstance(ours, Tensor):
                ours, each = (ours,), [(x,) for x in each]
            for a, *b in zip(ours, *each, strict=True):
                np.testing.assert_array_equal(a.asnumpy(), np.stack([x.asnumpy() for x in b]))
                assert a.asnumpy().any()


@BOTH
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_weights(mode, dtype):
    """They are read as float32, and their gradient comes back in their own dtype."""
    narrow = W.astype(getattr(ms, dtype))
    with context_mode(mode):
        ours = ms.grad(energy, (0, 2))(Q, K, narrow)
        wide = ms.grad(energy, (0, 2))(Q, K, narrow.astype(ms.float32))
    assert [x.dtype for x in ours] == [ms.float32, narrow.dtype]
    np.testing.assert_array_equal(ours[0].asnumpy(), wide[0].asnumpy())
    rounded = wide[1].astype(narrow.dtype).astype(ms.float32)
    np.testing.assert_array_equal(ours[1].astype(ms.float32).asnumpy(), rounded.asnumpy())


def test_lists_change_without_a_new_graph():
    class Picks(ms.nn.Cell):
        def construct(self, q, k, w, queries, keys):
            return mindspore_nsa.lightning_indexer(
                q, k, w, sparse_count=6, actual_seq_lengths_query=queries,
                actual_seq_lengths_key=keys)[0]  # fmt: skip

    net = Picks()
    with context_mode("graph"):
        for queries, keys in (((12, 12), (20, 20)), ((3, 0), (20, 7)), ((12, 5), (0, 13))):
            ours = net(Q, K, W, Tensor(queries, ms.int64), Tensor(keys, ms.int64)).asnumpy()
            expected = mindspore_nsa.lightning_indexer(
                Q, K, W, sparse_count=6, actual_seq_lengths_query=queries,
                actual_seq_lengths_key=list(keys))[0]  # fmt: skip
            assert np.array_equal(ours, expected.asnumpy())
        assert len(net.compile_cache) == 1
        with pytest.raises(RuntimeError, match="actual_seq_lengths_key must be at most Sk"):
            net(Q, K, W, Tensor((1, 1), ms.int64), Tensor((20, 21), ms.int64)).asnumpy()


TABLE = Tensor(np.array([[0], [1]], np.int32))
PACKED = {"layout_query": "TND", "layout_key": "TND"}
LISTS = {"actual_seq_lengths_query": (5, 12), "actual_seq_lengths_key": (9, 20)}
WRONG = [
    ({"query": None}, TypeError, "query must be a Tensor"),
    ({"query": Q.astype(ms.int32)}, TypeError, "query must be of dtype"),
    ({"query": Q[0]}, ValueError, "query must be of shape (B, Sq, H, d)"),
    ({"key": K[:, :, :, :8]}, ValueError, "key must be of the head size d of query (16)"),
    ({"key": draw(2, 20, 3, 16)}, ValueError, "key must be of a head count N2 that divides H"),
    ({"key": K[:1]}, ValueError, "key must be"),
    ({"weights": W[:, :, :2]}, ValueError, "weights must be of shape (B, Sq, H)"),
    ({"weights": W.astype(ms.int32)}, TypeError, "weights must be"),
    ({"sparse_count": 0}, ValueError, "sparse_count must be >= 1, got 0"),
    ({"sparse_count": 2.0}, TypeError, "sparse_count must be an int"),
    ({"sparse_mode": 4}, ValueError, "sparse_mode must be 0 or 3, got 4"),
    ({"pre_tokens": 5}, ValueError, "pre_tokens must be 2**63 - 1, got 5"),
    ({"next_tokens": 2.0}, TypeError, "next_tokens must be an int"),
    ({"layout_query": "BNSD"}, ValueError, "layout_query must be one of 'BSND', 'TND'"),
    ({"layout_key": "TND"}, ValueError, "layout_key must be that of the query ('BSND')"),
    ({"layout_key": "PA_BSND"}, ValueError, "actual_seq_lengths_key must be given with"),
    ({"layout_key": "PA_BSND", "actual_seq_lengths_key": (3, 4)}, ValueError, "block_table must"),
    ({"layout_key": "PA_BSND", "actual_seq_lengths_key": (3, 4), "block_table": TABLE,
      "return_value": True}, ValueError, "return_value must be False with layout_key='PA_BSND'"),
    ({"layout_key": "PA_BSND", "actual_seq_lengths_key": (3, 24), "block_table": TABLE},
     ValueError, "actual_seq_lengths_key must be at most"),
    ({"block_table": TABLE}, ValueError, "block_table must be None unless layout_key"),
    ({"actual_seq_lengths_query": (12, 13)}, ValueError, "must be at most Sq (12), got 13"),
    ({"actual_seq_lengths_query": (12,)}, ValueError, "one length for each of the 2 batch"),
    ({"actual_seq_lengths_key": (-1, 3)}, ValueError, "actual_seq_lengths_key must be >= 0"),
    ({"actual_seq_lengths_key": 20}, TypeError, "actual_seq_lengths_key must be a tuple or list"),
    ({"compress_ratio": 0}, ValueError, "compress_ratio must be >= 1, got 0"),
    ({"compress_residual": (0, 1)}, ValueError, "compress_residual must be in [0, compress_ratio)"),
    ({"return_value": "yes"}, TypeError, "return_value must be a bool"),
    ({**PACKED, "query": Q[0], "key": K[0], "weights": W[0]}, ValueError,
     "actual_seq_lengths_query must be given with layout_query='TND'"),
    ({**PACKED, **LISTS, "query": Q[0], "key": K[0], "weights": W[0],
      "actual_seq_lengths_key": (9, 21)}, ValueError, "end at or before T2"),
]  # fmt: skip


@pytest.mark.parametrize("changes, error, text", WRONG, ids=[text[:40] for _, _, text in WRONG])
def test_errors(changes, error, text):
    given = {"query": Q, "key": K, "weights": W, "sparse_count": 6, **changes}

    class Call(ms.nn.Cell):
        def construct(self, x):
            return mindspore_nsa.lightning_indexer(**given)[0]

    with pytest.raises(error) as eager:
        mindspore_nsa.lightning_indexer(**given)
    first = str(eager.value).strip().splitlines()[0]
    assert first.startswith("lightning_indexer: ") and text in first and ", got " in first
    with context_mode("graph"), pytest.raises(error) as compiled:
        Call()(Tensor(1.0))
    assert str(compiled.value).strip().splitlines()[0] == first


@pytest.mark.filterwarnings("ignore:target. graphs that were compiled:UserWarning")
def test_no_ascend_kernel():
    with mindspore_nsa.target("ascend_twin"):
        with pytest.raises(ValueError, match="LightningIndexer|lightning_indexer"):
            mindspore_nsa.lightning_indexer(Q, K, W, sparse_count=6)


HALF = {
    "query": draw(1, 5, 64, 128, dtype="float16"),
    "key": draw(1, 32, 1, 128, dtype="float16"),
    "weights": draw(1, 5, 64),
    "sparse_count": 16,
}


@pytest.fixture
def built_in(monkeypatch):
    """On target ascend, with what MindSpore's operator was called with."""
    calls = []

    def record(query, key, weights, **more):
        calls.append({"query": query, "key": key, "weights": weights, **more})
        return "indices", "values"

    monkeypatch.setattr(_plan, "resolve_target", lambda *_: "ascend")
    monkeypatch.setattr(module, "_built_in", record)
    return calls


def test_target_ascend_calls_the_built_in(built_in):
    lists = {"actual_seq_lengths_query": Tensor([5]), "actual_seq_lengths_key": [30]}
    result = mindspore_nsa.lightning_indexer(**HALF, **lists, return_value=True)
    assert result == ("indices", "values")
    (given,) = built_in
    assert given["query"] is HALF["query"] and given["weights"].dtype == ms.float16
    assert given["actual_seq_lengths_key"].dtype == ms.int32
    assert given["actual_seq_lengths_key"].asnumpy().tolist() == [30]
    assert given["actual_seq_lengths_query"].dtype == ms.int32
    assert given["block_table"] is None and given["return_value"] is True
    names = inspect.signature(mindspore_nsa.lightning_indexer).parameters
    assert set(given) == set(names) - {
        *("pre_tokens", "next_tokens", "compress_ratio", "compress_residual")
    }


LIMITS = [
    ({"query": draw(1, 5, 65, 128, dtype="float16"), "weights": draw(1, 5, 65)}, "H of query"),
    ({"query": HALF["query"][..., :64], "key": HALF["key"][..., :64]}, "d of query must be 128"),
    ({"key": draw(1, 32, 2, 128, dtype="float16")}, "N2 of key must be 1 on Ascend, got 2"),
    ({"sparse_count": 3000}, "sparse_count must be at most 2048, or a multiple of 1024"),
    ({"compress_ratio": 4}, "compress_ratio must be 1 on Ascend, got 4"),
    ({"weights": None}, "weights must be given on Ascend"),
]


@pytest.mark.parametrize("changes, text", LIMITS, ids=[text[:20] for _, text in LIMITS])
def test_limits_of_the_built_in(built_in, changes, text):
    with pytest.raises(ValueError, match=text):
        mindspore_nsa.lightning_indexer(**{**HALF, **changes})
    assert built_in == []


def test_dtypes_of_the_built_in(built_in):
    wide = {name: HALF[name].astype(ms.float32) for name in ("query", "key")}
    with pytest.raises(TypeError, match="query must be of dtype float16 or bfloat16"):
        mindspore_nsa.lightning_indexer(**{**HALF, **wide})


def test_a_mindspore_without_the_built_in(built_in, monkeypatch):
    monkeypatch.setattr(module, "_built_in", None)
    with pytest.raises(ValueError, match="needs MindSpore's own operator"):
        mindspore_nsa.lightning_indexer(**HALF)


def test_pages_that_a_cache_does_not_have():
    """Known at the call in PyNative mode, when it runs in a graph; past a row's end, of no use."""
    table = np.array([[0, 1], [1, 0]], np.int32)

    def forward(q, k, w, table):
        return mindspore_nsa.lightning_indexer(
            q, k, w, sparse_count=6, layout_key="PA_BSND", block_table=table,
            actual_seq_lengths_key=(20, 21))[0]  # fmt: skip

    right = forward(Q, K, W, Tensor(table)).asnumpy()
    unused = np.array([[0, -7], [1, 0]], np.int32)
    np.testing.assert_array_equal(forward(Q, K, W, Tensor(unused)).asnumpy(), right)
    for page in (2, -1, -(2**31), 2**31 - 1):
        wrong = Tensor(np.array([[0, 1], [1, page]], np.int32))
        message = f"block_table must be of pages in [0, 2), got {page} at place 1 of row 1"
        with pytest.raises(ValueError, match=re.escape(message)):
            forward(Q, K, W, wrong)
    with pytest.raises(RuntimeError, match=re.escape(message)):
        ms.jit(forward)(Q, K, W, wrong).asnumpy()
