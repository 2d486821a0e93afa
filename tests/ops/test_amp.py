"""Mixed precision: inputs of different dtypes, and the levels of MindSpore's amp."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa

from .calls import context_mode, run
from .operators import OPERATORS, Loss, arguments, batch, draw, seeded, sequence

BOTH = pytest.mark.parametrize("mode", ["pynative", "graph"])
FLOATS = ("float32", "float16", "bfloat16")
INPUTS = {
    "nsa_compress": ("input", "weight"),
    "nsa_compress_attention": ("query", "key", "value"),
    "nsa_selected_attention": ("query", "key", "value"),
    "flash_attention_score": ("query", "key", "value"),
}


def function(name, constants, inputs):
    """The first output as a function of the floating inputs, in the form graphs understand."""
    if name == "nsa_compress":

        def forward(x, w):
            return mindspore_nsa.nsa_compress(x, w, **constants)

    elif name == "nsa_compress_attention":

        def forward(q, k, v):
            return mindspore_nsa.nsa_compress_attention(q, k, v, **constants)[0]

    elif name == "nsa_selected_attention":

        def forward(q, k, v):
            return mindspore_nsa.nsa_selected_attention(q, k, v, **constants)[0]

    else:

        def forward(q, k, v):
            return mindspore_nsa.flash_attention_score(q, k, v, **constants)

    return forward


def widest(dtypes):
    kinds = set(dtypes)
    return kinds.pop() if len(kinds) == 1 else "float32"


@BOTH
@pytest.mark.parametrize("dtypes", [("float16", "float32", "float32"),
                                    ("float32", "bfloat16", "float16"),
                                    ("float16", "bfloat16", "float16"),
                                    ("bfloat16", "bfloat16", "bfloat16")])  # fmt: skip
@pytest.mark.parametrize("name", OPERATORS)
def test_mixed_inputs(mode, name, dtypes):
    """Promoted to the widest; every gradient comes back in the dtype of its input."""
    constants = arguments(name)
    tensors = [constants.pop(n) for n in INPUTS[name]]
    dtypes = dtypes[: len(tensors)]
    mixed = [t.astype(getattr(ms, d)) for t, d in zip(tensors, dtypes)]
    wide = getattr(ms, widest(dtypes))
    same = [t.astype(wide) for t in mixed]
    forward = function(name, constants, INPUTS[name])
    slope = ms.grad(forward, tuple(range(len(tensors))))
    with context_mode(mode):
        ours, expected = forward(*mixed), forward(*same)
        assert ours.dtype == expected.dtype == wide
        assert (ours.astype(ms.float32) == expected.astype(ms.float32)).all()
        for g, e, t in zip(slope(*mixed), slope(*same), mixed):
            assert g.dtype == t.dtype
            assert (g.astype(ms.float32) == e.astype(t.dtype).astype(ms.float32)).all()
            assert g.astype(ms.float32).abs().sum() > 0


@BOTH
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrowed_sink_and_slopes(mode, dtype):
    """An input that must be float32 may come narrowed."""
    q, slopes, sink = draw(2, 24, 32), draw(4), draw(4)

    def forward(q, slopes, sink):
        return mindspore_nsa.flash_attention_score(
            q, q, q, 4, slopes, scalar_value=0.3, pse_type=2, sink=sink
        )

    narrow = getattr(ms, dtype)
    slope = ms.grad(forward, (0, 2))
    with context_mode(mode):
        ours = slope(q, slopes.astype(narrow), sink.astype(narrow))
        wide = slope(q, slopes.astype(narrow).astype(ms.float32),
                     sink.astype(narrow).astype(ms.float32))  # fmt: skip
        assert [g.dtype for g in ours] == [ms.float32, narrow]
        np.testing.assert_array_equal(ours[0].asnumpy(), wide[0].asnumpy())
        np.testing.assert_array_equal(
            ours[1].astype(ms.float32).asnumpy(),
            wide[1].astype(narrow).astype(ms.float32).asnumpy(),
        )


@BOTH
@pytest.mark.parametrize("level", ["O1", "O2", "O3", "auto"])
def test_levels(mode, level):
    """The loss is near that of full precision and every parameter has a gradient."""
    x, target = batch()
    seq = sequence(40, 96)
    full = float(Loss(seeded())(x, seq, target).asnumpy())
    with context_mode(mode):
        net = ms.amp.auto_mixed_precision(seeded(), level)
        both = ms.value_and_grad(Loss(net), None, net.trainable_params())
        loss, grads = both(x, seq, target)
        assert float(loss.asnumpy()) == pytest.approx(full, rel=2e-2)
        for g in grads:
            g = g.astype(ms.float32).asnumpy()
            assert np.isfinite(g).all() and g.any()


class Decode(ms.nn.Cell):
    def construct(self, query, gates, cmp, slc, win, tables):
        return mindspore_nsa.nsa_decode(
            query, gates, cmp, cmp, slc, slc, win, win, 0.2, 8, 16, 8, 16, 3, 24,
            block_table=tables, cmp_block_table=tables, actual_seq_kvlen=(40, 23), init_blocks=1
        )  # fmt: skip


class CompressWithCache(ms.nn.Cell):
    def construct(self, tokens, weight, cache):
        return mindspore_nsa.nsa_compress_with_cache(
            tokens, weight, (2, 1), 16, 8, 64, actual_seq_len=(16, 24), cache=cache
        )


class CompressAttentionInfer(ms.nn.Cell):
    def construct(self, query, kv, table):
        return mindspore_nsa.nsa_compress_attention_infer(
            query, kv, kv, 0.2, 8, 2, 16, 3, 20, 16, 8, block_table=table,
            actual_cmp_seq_kvlen=(35, 20),
        )[0]  # fmt: skip


class SelectedAttentionInfer(ms.nn.Cell):
    def construct(self, query, kv, indices, table):
        return mindspore_nsa.nsa_selected_attention_infer(
            query, kv, kv, indices, 0.2, 8, 2, 16, 2, 20, layout="TND", block_table=table,
            actual_seq_kvlen=(35, 20),
        )  # fmt: skip


def decoding_inputs():
    """The Tensors of each Cell by its class."""
    query, pages, table = draw(2, 8, 32), draw(5, 20, 2, 32), np.int32([[4, 1], [0, 2]])
    indices = Tensor(np.int32([[[0, 2], [1, 0]]] * 2))
    table = Tensor(table)
    return {
        Decode: (query, draw(2, 3, 8), pages, pages, draw(2, 30, 2, 32), table),
        CompressWithCache: (draw(40, 2, 32), draw(16, 2), Tensor(np.zeros((4, 2, 32), "float32"))),
        CompressAttentionInfer: (query, pages, table),
        SelectedAttentionInfer: (query, pages, indices, table),
    }


@BOTH
@pytest.mark.parametrize("cell", decoding_inputs())
def test_level_o1_of_decoding(cell, mode):
    """It copies the functions that a network calls, which then see few names of their modules."""
    with context_mode(mode):
        expected = cell()(*decoding_inputs()[cell]).asnumpy()
        net = ms.amp.auto_mixed_precision(cell(), "O1")
        np.testing.assert_array_equal(net(*decoding_inputs()[cell]).asnumpy(), expected)
    assert expected.any()


def test_level_o2_with_a_direct_parameter():
    """PyNative mode narrows every floating input of every operator inside such a Cell."""

    class Net(ms.nn.Cell):
        def __init__(self):
            super().__init__()
            self.weight = ms.Parameter(draw(16, 2), name="weight")

        def construct(self, x):
            return mindspore_nsa.nsa_compress(x, self.weight, 16, 8, actual_seq_len=(40, 96))

    x = arguments("nsa_compress")["input"]
    full = Net()(x).asnumpy()
    half = ms.amp.auto_mixed_precision(Net(), "O2")(x).astype(ms.float32).asnumpy()
    np.testing.assert_allclose(half, full, atol=2e-2 * np.abs(full).max())


def test_unsupported_dtypes_are_not_promoted():
    given = arguments("nsa_compress")
    for dtype in (ms.float64, ms.int32, ms.complex64):
        given["weight"] = Tensor(np.ones((16, 2)), dtype)
        name = str(dtype).lower()
        with pytest.raises(
            TypeError, match=f"nsa_compress: weight must be of dtype .*, got {name}"
        ):
            mindspore_nsa.nsa_compress(**given)


def test_run_keeps_the_output_dtype():
    q = draw(2, 24, 32).astype(ms.bfloat16)

    def forward(q):
        return mindspore_nsa.flash_attention_score(q, q, q, 4, scalar_value=0.3)

    assert forward(q).dtype == ms.bfloat16
    assert run("graph", forward, q).dtype == np.float32
