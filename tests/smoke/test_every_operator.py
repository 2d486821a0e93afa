"""Every public operator, forward and backward, in both modes, against the reference.

Imports nothing but the installed package, so that it also runs in the environment of the oldest
MindSpore that is supported.
"""

import mindspore as ms
import numpy as np
import pytest

import mindspore_nsa
from mindspore_nsa import reference

# Two documents of 80 and 112 tokens: 4 and 6 windows of 32 tokens, 16 apart; 3 and 4 blocks of 32.
# Ascend takes strides and head dimensions that are multiples of 16.
T, SEQ = 192, (80, 192)
CMP = (4, 10)
L, S, SELECT, COUNT = 32, 16, 32, 3
N1, N2, D, DV = 4, 2, 32, 16
SCALE = 0.25
TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
# Every case makes a Cell of its own, so that none runs a graph of the target before.
pytestmark = pytest.mark.filterwarnings("ignore:target. graphs that were compiled:UserWarning")


def draw(*shape):
    """Values that bfloat16 holds exactly, so that all dtypes share one reference."""
    size = int(np.prod(shape))
    values = np.random.default_rng(size).integers(-64, 65, shape)
    return (values / 32).astype(np.float32)


def close(ours, expected, dtype):
    ours = ours.astype(ms.float32).asnumpy() if ours.dtype == ms.bfloat16 else ours.asnumpy()
    expected = np.asarray(expected, np.float64)
    assert ours.shape == expected.shape
    assert np.isfinite(ours).all()
    scale = np.abs(expected).max()
    assert scale > 0
    assert np.abs(ours - expected).max() <= TOLERANCE[dtype] * scale


@pytest.fixture(params=["PyNative", "graph"])
def mode(request):
    ms.set_context(mode=ms.PYNATIVE_MODE if request.param == "PyNative" else ms.GRAPH_MODE)
    yield request.param
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture(params=["float32", "float16", "bfloat16", "float16 on ascend_twin"])
def dtype(request):
    """A dtype, on the target cpu or on the one that is named."""
    dtype, _, target = request.param.partition(" on ")
    with mindspore_nsa.target(target or "cpu"):
        yield dtype


def check(function, arrays, dout, expected, gradients, dtype):
    """`function` of Tensors gives `expected`; its gradient for the output gradient `dout`."""
    tensors = [ms.Tensor(x, getattr(ms, dtype)) for x in arrays]
    weight = ms.Tensor(dout)

    class Total(ms.nn.Cell):
        def construct(self, *tensors):
            out = function(*tensors)
            return (out.astype(ms.float32) * weight).sum(), out

    places = tuple(range(len(tensors)))
    (_, out), grads = ms.value_and_grad(Total(), places, None, has_aux=True)(*tensors)
    close(out, expected, dtype)
    for ours, theirs in zip(grads, gradients, strict=True):
        close(ours, theirs, dtype)


def test_nsa_compress(mode, dtype):
    x, w, dout = draw(T, N2, D), draw(L, N2), draw(10, N2, D)

    def function(x, w):
        return mindspore_nsa.nsa_compress(x, w, L, S, actual_seq_len=SEQ)

    out = reference.nsa_compress(x, w, L, S, actual_seq_len=SEQ)
    gradients = reference.nsa_compress_grad(dout, x, w, L, S, actual_seq_len=SEQ)
    check(function, (x, w), dout, out, gradients, dtype)


def compress_attention(q, k, v):
    return mindspore_nsa.nsa_compress_attention(
        *(q, k, v, SCALE, N1, L, S, SELECT, COUNT),
        actual_seq_qlen=SEQ,
        causal=True,
        init_blocks=1,
        local_blocks=1,
        importance="overlap",
    )


def test_nsa_compress_attention(mode, dtype):
    q, k, v, dout = draw(T, N1, D), draw(10, N2, D), draw(10, N2, DV), draw(T, N1, DV)
    common = {"compress_block_size": L, "compress_stride": S}
    out = reference.nsa_compress_attention(
        *(q, k, v),
        scale_value=SCALE,
        head_num=N1,
        select_block_size=SELECT,
        select_block_count=COUNT,
        actual_seq_qlen=SEQ,
        actual_cmp_seq_kvlen=CMP,
        causal=True,
        init_blocks=1,
        local_blocks=1,
        importance="overlap",
        **common,
    )
    gradients = reference.flash_attention_score_grad(
        *(q, k, v, dout, N1, out[2], out[3], out[0]),
        actual_seq_qlen=SEQ,
        actual_seq_kvlen=CMP,
        scalar_value=SCALE,
        input_layout="TND",
        **common,
    )[:3]

    def function(q, k, v):
        return compress_attention(q, k, v)[0]

    check(function, (q, k, v), dout, out[0], gradients, dtype)
    if dtype == "float32":
        ours = compress_attention(*map(ms.Tensor, (q, k, v)))
        assert np.array_equal(ours[1].asnumpy(), out[1])
        close(ours[3], np.where(out[3] > 1e30, ours[3].asnumpy(), out[3]), dtype)


@pytest.mark.parametrize("name", ["nsa_selected_attention", "nsa_select_attention"])
def test_nsa_selected_attention(mode, dtype, name):
    q, k, v, dout = draw(T, N1, D), draw(T, N2, D), draw(T, N2, DV), draw(T, N1, DV)
    indices = np.random.default_rng(1).integers(-1, 4, (T, N2, COUNT)).astype(np.int32)
    indices[..., 0] = 0
    attrs = {
        "scale_value": SCALE,
        "head_num": N1,
        "select_block_size": SELECT,
        "select_block_count": COUNT,
    }
    lists = {"actual_seq_qlen": SEQ, "actual_seq_kvlen": SEQ, "causal": True}

    # A graph's getattr knows no attribute that a module makes when it is asked for.
    operator = getattr(mindspore_nsa, name)

    def function(q, k, v):
        return operator(q, k, v, ms.Tensor(indices), SCALE, N1, SELECT, COUNT, **lists)[0]

    out = reference.nsa_selected_attention(q, k, v, indices, **attrs, **lists)
    gradients = reference.nsa_selected_attention_grad(
        q, k, v, out[0], dout, out[1], out[2], indices, **attrs, **lists
    )
    check(function, (q, k, v), dout, out[0], gradients, dtype)


LAYOUTS = {
    "BSH": lambda b, s, n, d: (b, s, n * d),
    "SBH": lambda b, s, n, d: (s, b, n * d),
    "BSND": lambda b, s, n, d: (b, s, n, d),
    "BNSD": lambda b, s, n, d: (b, n, s, d),
    "TND": lambda b, s, n, d: (b * s, n, d),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_flash_attention_score(mode, dtype, layout):
    shape = LAYOUTS[layout]
    q, k, v, dout = (draw(*shape(2, 33, n, d)) for n, d in ((N1, D), (N2, D), (N2, DV), (N1, DV)))
    arguments = {"scalar_value": SCALE, "input_layout": layout, "sparse_mode": 2}
    if layout == "TND":
        arguments |= {"actual_seq_qlen": (33, 66), "actual_seq_kvlen": (33, 66)}

    def function(q, k, v):
        return mindspore_nsa.flash_attention_score(q, k, v, N1, **arguments)

    out, maximum, total = reference.flash_attention_score(q, k, v, N1, **arguments)
    gradients = reference.flash_attention_score_grad(
        q, k, v, dout, N1, maximum, total, out, **arguments
    )[:3]
    check(function, (q, k, v), dout, out, gradients, dtype)


@pytest.mark.parametrize("score", ["max", "mean", "relu_weighted"])
def test_block_indexer(mode, score):
    q, k = draw(T, N1, D), draw(T, N2, D)
    attrs = {"score": score, "block_size": SELECT, "block_count": COUNT, "local_blocks": 1}
    lists = {"actual_seq_qlen": SEQ, "actual_seq_kvlen": SEQ}

    class Choice(ms.nn.Cell):
        def construct(self, q, k):
            return mindspore_nsa.block_indexer(q, k, **attrs, **lists)

    ours = Choice()(ms.Tensor(q), ms.Tensor(k)).asnumpy()
    assert np.array_equal(ours, reference.block_indexer(q, k, **attrs, **lists))


def test_lightning_indexer(mode):
    """Numbers whose products are exact, so that even equal scores are in order."""
    q, k, w = draw(2, 12, N1, D) * 8, draw(2, 20, 1, D) * 8, draw(2, 12, N1) * 8
    q, k, w = (np.rint(x) for x in (q, k, w))
    dout = draw(2, 12, 1, 9)

    class Total(ms.nn.Cell):
        def construct(self, q, k, w):
            picks, values = mindspore_nsa.lightning_indexer(
                q, k, w, sparse_count=9, return_value=True
            )
            return (values * ms.Tensor(dout)).sum(), picks, values

    tensors = [ms.Tensor(x.astype(np.float32)) for x in (q, k, w)]
    (_, picks, values), grads = ms.value_and_grad(Total(), (0, 1, 2), None, has_aux=True)(*tensors)
    indices, scores = reference.lightning_indexer(q, k, w, sparse_count=9, return_value=True)
    assert np.array_equal(picks.asnumpy(), indices) and np.array_equal(values.asnumpy(), scores)
    gradients = reference.lightning_indexer_grad(q, k, dout, indices, w)
    for ours, theirs in zip(grads, gradients, strict=True):
        close(ours, theirs, "float32")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_sparse_flash_attention(mode, dtype):
    q, k, v, q_rope, k_rope, dout = (
        draw(2, rows, n, d)
        for rows, n, d in ((12, N1, D), (20, N2, D), (20, N2, DV), (12, N1, 8), (20, N2, 8),
                           (12, N1, DV))
    )  # fmt: skip
    picks = np.random.default_rng(2).integers(-1, 20, (2, 12, N2, 7)).astype(np.int32)
    attrs = {"attention_mode": 2, "sparse_block_size": 1}

    def function(q, k, v, q_rope, k_rope):
        return mindspore_nsa.sparse_flash_attention(
            q, k, v, ms.Tensor(picks), SCALE, query_rope=q_rope, key_rope=k_rope, **attrs
        )[0]

    ropes = {"query_rope": q_rope, "key_rope": k_rope}
    out = reference.sparse_flash_attention(q, k, v, picks, SCALE, **ropes, **attrs)[0]
    gradients = reference.sparse_flash_attention_grad(
        q, k, v, picks, out, dout, **ropes, scale_value=SCALE, **attrs
    )[:5]
    check(function, (q, k, v, q_rope, k_rope), dout, out, gradients, dtype)


def test_indexer_kl_loss(mode):
    q, k = draw(2, 12, N1, D), draw(2, 20, 1, D)
    indexer = [draw(2, 12, 2, 8), draw(2, 20, 1, 8), draw(2, 12, 2)]
    picks = np.random.default_rng(2).integers(-1, 20, (2, 12, 1, 7)).astype(np.int32)
    _, *sums = reference.sparse_flash_attention(q, k, k, picks, SCALE, return_softmax_lse=True)
    sums = [x.astype(np.float32) for x in sums]
    rest = [ms.Tensor(x) for x in (picks, *sums)]

    def loss(q_index, k_index, weights):
        return mindspore_nsa.lightning_indexer_kl_loss(
            ms.Tensor(q), ms.Tensor(k), q_index, k_index, weights, *rest, SCALE
        )

    tensors = [ms.Tensor(x) for x in indexer]
    value, grads = ms.value_and_grad(loss, (0, 1, 2))(*tensors)
    *gradients, total = reference.sparse_lightning_indexer_grad_kl_loss(
        q, k, *indexer, picks, *sums, SCALE
    )
    close(value, total[0] / 24, "float32")
    for ours, theirs in zip(grads, gradients, strict=True):
        close(ours, theirs / 24, "float32")


def test_dropout(mode):
    q, k, v = (draw(2, 33, n, d) for n, d in ((N1, D), (N2, D), (N2, DV)))
    dout = draw(2, 33, N1, DV)
    keep, numel = float(np.float32(0.8)), 2 * N1 * 33 * 33
    mask = mindspore_nsa.dropout_mask(keep, numel, 7)
    assert np.array_equal(mask.asnumpy(), reference.dropout_mask(keep, numel, 7))
    arguments = {"scalar_value": SCALE, "input_layout": "BSND", "keep_prob": keep}

    def function(q, k, v):
        return mindspore_nsa.flash_attention_score(q, k, v, N1, drop_mask=mask, **arguments)

    given = {**arguments, "drop_mask": mask.asnumpy()}
    out, maximum, total = reference.flash_attention_score(q, k, v, N1, **given)
    gradients = reference.flash_attention_score_grad(
        q, k, v, dout, N1, maximum, total, out, **given
    )[:3]
    check(function, (q, k, v), dout, out, gradients, "float32")


def test_compressed_seq_len(mode):
    assert tuple(mindspore_nsa.compressed_seq_len(SEQ, L, S)) == CMP
    ours = mindspore_nsa.compressed_seq_len(ms.Tensor(SEQ, ms.int64), L, S)
    assert tuple(ours.asnumpy().tolist()) == CMP


def test_lists_as_tensors(mode):
    x, w = ms.Tensor(draw(T, N2, D)), ms.Tensor(draw(L, N2))

    @ms.jit
    def function(x, w, lengths):
        return mindspore_nsa.nsa_compress(x, w, L, S, actual_seq_len=lengths)

    for lengths in (SEQ, (128, T), (0, T)):
        out = function(x, w, ms.Tensor(lengths, ms.int64))
        lists = {"actual_seq_len": lengths, "num_windows": 12}
        close(out, reference.nsa_compress(x.asnumpy(), w.asnumpy(), L, S, **lists), "float32")


def test_errors(mode):
    x = ms.Tensor(draw(T, N2, D))
    with pytest.raises(ValueError, match="nsa_compress: weight must be"):
        mindspore_nsa.nsa_compress(x, ms.Tensor(draw(L, N2 + 1)), L, S, actual_seq_len=SEQ)
    with pytest.raises(TypeError, match="nsa_compress: "):
        mindspore_nsa.nsa_compress(x.astype(ms.int32), x[0], L, S, actual_seq_len=SEQ)
