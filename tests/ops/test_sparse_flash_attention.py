"""sparse_flash_attention in a network: vmap, mixed dtypes, errors, target ascend."""

import importlib
import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

import mindspore_nsa
from mindspore_nsa import reference
from mindspore_nsa.ops import _plan

from .calls import context_mode
from .operators import draw

module = importlib.import_module("mindspore_nsa.ops.sparse_flash_attention")
BOTH = pytest.mark.parametrize("mode", ["pynative", "graph"])
Q, K, V = draw(2, 12, 4, 16), draw(2, 20, 2, 16), draw(2, 20, 2, 8)
QR, KR, SINKS = draw(2, 12, 4, 6), draw(2, 20, 2, 6), draw(4)
PICKS = Tensor(np.random.default_rng(0).integers(-1, 20, (2, 12, 2, 7)).astype(np.int32))


def attend(q, k, v, picks, qr=None, kr=None, sinks=None, **more):
    return mindspore_nsa.sparse_flash_attention(
        q, k, v, picks, 0.25, query_rope=qr, key_rope=kr, sinks=sinks, **more
    )


def energy(q, k, v, picks, qr, kr, sinks):
    return ops.square(attend(q, k, v, picks, qr, kr, sinks, attention_mode=2)[0]).sum()


@BOTH
def test_vmap(mode):
    tensors = [ops.stack((x, x * 2)) for x in (Q, K, V)]
    picks = ops.stack((PICKS, PICKS[:, ::-1]))

    def forward(q, k, v, picks):
        return attend(q, k, v, picks)[0]

    with context_mode(mode):
        ours = ops.vmap(forward)(*tensors, picks).asnumpy()
        each = [forward(*(x[i] for x in tensors), picks[i]).asnumpy() for i in range(2)]
    np.testing.assert_array_equal(ours, np.stack(each))


@BOTH
def test_mixed_inputs(mode):
    """Promoted to the widest; every gradient comes back in the dtype of its input."""
    given = [Q.astype(ms.float16), K, V.astype(ms.bfloat16), PICKS, QR.astype(ms.float16), KR]
    given.append(SINKS.astype(ms.float16))
    wide = [x.astype(ms.float32) if x is not PICKS else x for x in given]
    places = (0, 1, 2, 4, 5, 6)
    with context_mode(mode):
        ours, expected = (ms.grad(energy, places)(*x) for x in (given, wide))
    for a, b, place in zip(ours, expected, places, strict=True):
        assert a.dtype == given[place].dtype
        rounded = b.astype(a.dtype).astype(ms.float32).asnumpy()
        np.testing.assert_array_equal(a.astype(ms.float32).asnumpy(), rounded)
        assert rounded.any()


@BOTH
def test_gradient_of_statistics(mode):
    """Gradients of the weighed log-sum-exp, with ropes and sinks."""
    given = [Q, K, V, PICKS, QR, KR, SINKS]
    places = (0, 1, 2, 4, 5, 6)
    arrays = [x.asnumpy() for x in given]
    weights = np.random.default_rng(1).standard_normal((2, 2, 12, 2)).astype(np.float32)

    def loss(q, k, v, picks, qr, kr, sinks):
        _, top, total = attend(
            q, k, v, picks, qr, kr, sinks, attention_mode=2, return_softmax_lse=True
        )
        return ((top + ops.log(total)) * Tensor(weights)).sum()

    with context_mode(mode):
        ours = [x.asnumpy() for x in ms.grad(loss, places)(*given)]
    more = {"query_rope": arrays[4], "key_rope": arrays[5], "sinks": arrays[6], "attention_mode": 2}
    out, _, total = reference.sparse_flash_attention(
        *arrays[:4], 0.25, return_softmax_lse=True, **more
    )
    expected = reference.sparse_flash_attention_grad(
        *arrays[:4], out, 0 * out, scale_value=0.25, softmax_sum_grad=weights / total, **more
    )
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5 * max(1, np.abs(b).max()))
    assert not ours[2].any() and all(x.any() for x in (*ours[:2], *ours[3:]))


@BOTH
def test_statistics_that_nothing_uses(mode):
    """The gradients of the output alone, to the bit."""

    def with_statistics(q, k):
        return (attend(q, k, V, PICKS, return_softmax_lse=True)[0] * 2).sum()

    def without(q, k):
        return (attend(q, k, V, PICKS)[0] * 2).sum()

    with context_mode(mode):
        ours, expected = (ms.grad(loss, (0, 1))(Q, K) for loss in (with_statistics, without))
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_pages_that_a_cache_does_not_have():
    """Known at the call in PyNative mode, when it runs in a graph; past a row's end, of no use."""
    table = np.array([[0, 1], [1, 0]], np.int32)

    def forward(q, k, v, picks, table):
        return attend(q, k, v, picks, layout_kv="PA_BSND", block_table=table,
                      actual_seq_lengths_kv=(20, 21))[0]  # fmt: skip

    right = forward(Q, K, V, PICKS, Tensor(table)).asnumpy()
    unused = np.array([[0, -7], [1, 0]], np.int32)
    np.testing.assert_array_equal(forward(Q, K, V, PICKS, Tensor(unused)).asnumpy(), right)
    for page in (2, -1, -(2**31), 2**31 - 1):
        wrong = Tensor(np.array([[0, 1], [1, page]], np.int32))
        message = f"block_table must be of pages in [0, 2), got {page} at place 1 of row 1"
        with pytest.raises(ValueError, match=re.escape(message)):
            forward(Q, K, V, PICKS, wrong)
    with pytest.raises(RuntimeError, match=re.escape(message)):
        ms.jit(forward)(Q, K, V, PICKS, wrong).asnumpy()


@BOTH
def test_pages_have_no_gradient(mode):
    paged = {
        "layout_kv": "PA_BSND",
        "block_table": Tensor(np.array([[0], [1]], np.int32)),
        "actual_seq_lengths_kv": (20, 13),
    }

    def forward(q):
        return attend(q, K, V, PICKS, **paged)[0].sum()

    with context_mode(mode):
        assert np.isfinite(forward(Q).asnumpy())
        with pytest.raises((ValueError, RuntimeError), match="no gradient where keys are in pages"):
            ms.grad(forward)(Q).asnumpy()


WRONG = [
    ({"value": V[:, :19]}, ValueError, "value must be of shape like key"),
    ({"value": V[..., 0]}, ValueError, "value must be of shape like key"),
    ({"sparse_indices": PICKS.astype(ms.int64)}, TypeError, "sparse_indices must be of dtype"),
    ({"sparse_indices": PICKS[:, :, :1]}, ValueError, "sparse_indices must be of shape"),
    ({"scale_value": None}, TypeError, "scale_value must be a float"),
    ({"sparse_block_size": 0}, ValueError, "sparse_block_size must be >= 1, got 0"),
    ({"sparse_mode": 2}, ValueError, "sparse_mode must be 0 or 3, got 2"),
    ({"attention_mode": 1}, ValueError, "attention_mode must be 0 or 2, got 1"),
    ({"attention_mode": 2}, ValueError, "query_rope must be given with attention_mode=2"),
    ({"query_rope": QR, "key_rope": KR}, ValueError, "query_rope must be None with attention_mode"),
    ({"query_rope": QR[..., :5], "key_rope": KR, "attention_mode": 2}, ValueError,
     "query_rope must be of shape (B, Sq, N, R)"),
    ({"sinks": SINKS[:3]}, ValueError, "sinks must be of shape (N,)"),
    ({"layout_kv": "TND"}, ValueError, "layout_kv must be that of the query ('BSND')"),
    ({"layout_kv": "PA_BSND"}, ValueError, "actual_seq_lengths_kv must be given with layout_kv="),
    ({"layout_kv": "PA_BSND", "actual_seq_lengths_kv": (3, 4), "sparse_block_size": 3,
      "block_table": Tensor(np.zeros((2, 1), np.int32))}, ValueError,
     "sparse_block_size must be a divisor of a page's tokens (20), got 3"),
    ({"pre_tokens": 1}, ValueError, "pre_tokens must be 2**63 - 1, got 1"),
    ({"return_softmax_lse": 3}, ValueError, "return_softmax_lse must be 0 or 1"),
]  # fmt: skip


@pytest.mark.parametrize("changes, error, text", WRONG, ids=[text[:40] for _, _, text in WRONG])
def test_errors(changes, error, text):
    given = {"query": Q, "key": K, "value": V, "sparse_indices": PICKS, "scale_value": 0.25}
    given |= changes

    class Call(ms.nn.Cell):
        def construct(self, x):
            return mindspore_nsa.sparse_flash_attention(**given)[0]

    with pytest.raises(error) as eager:
        mindspore_nsa.sparse_flash_attention(**given)
    first = str(eager.value).strip().splitlines()[0]
    assert first.startswith("sparse_flash_attention: ") and text in first and ", got " in first
    with context_mode("graph"), pytest.raises(error) as compiled:
        Call()(Tensor(1.0))
    assert str(compiled.value).strip().splitlines()[0] == first


def latent(heads=64, **changes):
    shapes = {
        "query": (1, 5, heads, 512),
        "key": (1, 32, 1, 512),
        "value": (1, 32, 1, 512),
        "query_rope": (1, 5, heads, 64),
        "key_rope": (1, 32, 1, 64),
    }
    given = {name: draw(*shape, dtype="float16") for name, shape in shapes.items()}
    picks = Tensor(np.zeros((1, 5, 1, 16), np.int32))
    return {**given, "sparse_indices": picks, "scale_value": 0.1, "attention_mode": 2, **changes}


@pytest.fixture
def built_in(monkeypatch):
    """On target ascend, with what MindSpore's operator was called with."""
    calls = []

    def record(*arguments, **more):
        calls.append((arguments, more))
        return "out", "max", "sum"

    monkeypatch.setattr(_plan, "resolve_target", lambda *_: "ascend")
    monkeypatch.setattr(module, "_built_in", record)
    return calls


def test_target_ascend_calls_the_built_in(built_in):
    given = latent(actual_seq_lengths_kv=Tensor([30]))
    assert mindspore_nsa.sparse_flash_attention(**given) == ("out", "max", "sum")
    ((arguments, more),) = built_in
    assert arguments[0] is given["query"] and arguments[3] is given["sparse_indices"]
    assert more["actual_seq_lengths_kv"].dtype == ms.int32 and more["attention_mode"] == 2
    assert more["actual_seq_lengths_query"] is None and "sinks" not in more


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"heads": 48}, "N of query must be a power of 2 up to 128 on Ascend, got 48"),
        ({"sparse_block_size": 3}, "sparse_block_size must be a power of 2 up to 128 on Ascend"),
        ({"sinks": draw(64)}, "sinks must be None on Ascend"),
        (
            {"attention_mode": 0, "query_rope": None, "key_rope": None},
            "attention_mode must be 2 on",
        ),
    ],
)
def test_limits_of_the_built_in(built_in, changes, text):
    with pytest.raises(ValueError, match=text):
        mindspore_nsa.sparse_flash_attention(**latent(**changes))
    assert built_in == []
