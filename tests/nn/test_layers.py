"""Properties of the layers beside their numbers: lengths, packing, time, documents, branches."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from mindspore_nsa.nn import packing
from tests.ops.calls import context_mode, in_mode

from .cells import ENDS, KINDS, build, config, differentiated, filled, refer, to_numpy, tokens

SETTINGS = config()


@pytest.mark.parametrize("kind", KINDS)
def test_every_length(kind):
    """From one token on, also where no window, stride or block is full."""
    layer, parameters = filled(kind, SETTINGS)
    for count in (*range(1, 10), 15, 16, 17, 33) if kind == "sparse" else (1, 2, 11, 33):
        x = tokens(SETTINGS, count)
        expected = refer(kind, x, parameters, SETTINGS, [count], x)[0]
        ours = layer(Tensor(x[None])).asnumpy()
        assert ours.shape == (1, count, SETTINGS.hidden_size)
        bound = 1e-5 * np.abs(expected).max()
        np.testing.assert_allclose(ours[0], expected, rtol=0, atol=bound)


@pytest.mark.parametrize(
    "kind, mode",
    [
        *((kind, "pynative") for kind in ("sparse", "dense")),
        *(("sparse", "graph"), pytest.param("sparse", "jit_O0", marks=pytest.mark.soak)),
    ],
)
def test_a_batch_is_packed_documents(kind, mode):
    layer, _ = filled(kind, SETTINGS)
    x = tokens(SETTINGS, 60).reshape(3, 20, -1)
    packed = Tensor(x.reshape(60, -1))
    expected = layer(packed, (20, 40, 60)).asnumpy()

    def batched(x):
        return layer(x)

    def by_tensor(x, seq):
        return layer(x, seq)

    with context_mode(mode):
        rows = in_mode(mode, batched)(Tensor(x)).asnumpy()
        np.testing.assert_array_equal(rows.reshape(60, -1), expected)
        for dtype in (ms.int64, ms.int32) if mode == "pynative" else (ms.int64,):
            seq = Tensor([20, 40, 60], dtype)
            ours = in_mode(mode, by_tensor)(packed, seq).asnumpy()
            np.testing.assert_array_equal(ours, expected)
    assert expected.any()


@pytest.mark.parametrize("count", [1, 2, 7])
def test_gradients_of_a_document_without_a_window(count):
    layer, parameters = filled("sparse", SETTINGS)
    x, upstream = tokens(SETTINGS, count), tokens(SETTINGS, count, seed=2)
    out, dx, grads = differentiated(layer)(Tensor(x), (count,), Tensor(upstream))
    expected = refer("sparse", x, parameters, SETTINGS, [count], upstream)
    assert grads.keys() == expected[2].keys()
    pairs = [(out, expected[0]), (dx, expected[1])]
    for ours, e in (*pairs, *((grads[name], g) for name, g in expected[2].items())):
        # Terms that cancel in exact arithmetic leave rounding noise.
        bound = 1e-5 * max(np.abs(e).max(), 1e-1)
        np.testing.assert_allclose(ours.reshape(e.shape), e, rtol=0, atol=bound)


def test_lists_of_any_kind():
    """Tuple, list and Tensor; empty documents anywhere change nothing."""
    layer, _ = filled("sparse", SETTINGS)
    x = Tensor(tokens(SETTINGS))
    expected = layer(x, (21, 24, 60)).asnumpy()
    for seq in ([21, 24, 60], ENDS, (21, 24, 60, 60), Tensor(ENDS, ms.int64)):
        np.testing.assert_array_equal(layer(x, seq).asnumpy(), expected)
    with context_mode("graph"):
        ours = layer(x, actual_seq_len=[21, 24, 60]).asnumpy()
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_plans_of_past_lists_are_dropped():
    """A plan holds the position of every token; lists may be new at every step."""
    x = Tensor(tokens(SETTINGS))
    for end in range(40):
        packed, ends, _ = packing.pack("layer", x, (end, 60), SETTINGS.hidden_size)
        packing.compressed_documents(packed, ends, 8, 4)
    for planner in (packing._plan_packing, packing._plan_compressed):
        assert 0 < len(planner._results) <= 32


@pytest.mark.parametrize("as_tensor", [False, True], ids=["tuple", "tensor"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_number_stays_with_the_tokens_that_see_it(kind, as_tensor):
    layer, _ = filled(kind, SETTINGS)
    seq = Tensor(ENDS, ms.int64) if as_tensor else ENDS
    x = tokens(SETTINGS)
    before = layer(Tensor(x), seq).asnumpy()
    x[15] = np.nan
    after = layer(Tensor(x), seq).asnumpy()
    seen = np.isnan(after).all(1)
    np.testing.assert_array_equal(np.flatnonzero(seen), np.arange(15, 21))
    bound = 1e-6 * np.abs(before).max()
    np.testing.assert_allclose(after[~seen], before[~seen], rtol=0, atol=bound)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("as_tensor", [False, True], ids=["tuple", "tensor"])
def test_neither_later_tokens_nor_other_documents(kind, as_tensor):
    layer, _ = filled(kind, SETTINGS)
    seq = Tensor(ENDS, ms.int64) if as_tensor else ENDS
    x = tokens(SETTINGS)
    before = layer(Tensor(x), seq).asnumpy()
    x[40:] += 1
    x[:24] -= 1
    after = layer(Tensor(x), seq).asnumpy()
    np.testing.assert_array_equal(after[24:40], before[24:40])
    assert (after[40:] != before[40:]).any(1).all() and (after[:24] != before[:24]).any(1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_neither_of_later_tokens_nor_of_other_documents(kind):
    layer, _ = filled(kind, SETTINGS)

    def energy(x):
        return ops.square(layer(x, ENDS)[30:40]).sum()

    slope = ms.grad(energy)(Tensor(tokens(SETTINGS))).asnumpy()
    assert not slope[:24].any() and not slope[40:].any()
    assert slope[30:40].any(1).all()
    if kind != "window":
        assert slope[24:30].any(1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_is_what_it_is_alone(kind):
    """Positions, windows and blocks count from the document's beginning."""
    layer, _ = filled(kind, SETTINGS)
    x = tokens(SETTINGS)
    together = layer(Tensor(x), ENDS).asnumpy()
    for begin, end in ((0, 21), (21, 24), (24, 60)):
        alone = layer(Tensor(x[begin:end]), (end - begin,)).asnumpy()
        bound = 1e-6 * np.abs(together).max()
        np.testing.assert_allclose(together[begin:end], alone, rtol=0, atol=bound)


def only(branch, **changes):
    """A sparse layer with one gate open and the others shut, and its parameters' values."""
    settings = config(has_bias=True, **changes)
    layer, parameters = filled("sparse", settings)
    layer.gates.linear.weight.set_data(ops.zeros_like(layer.gates.linear.weight))
    logits = np.full((3, settings.num_heads), -200, np.float32)
    logits[branch] = 200
    layer.gates.linear.bias.set_data(Tensor(logits.reshape(-1)))
    return settings, layer, parameters


def dense_twin(settings, parameters, branch, window):
    """A dense layer with the key and value projection of one branch of a sparse one."""
    dense = build("window" if window else "dense", settings)
    keys = settings.num_kv_heads * settings.head_dim
    values = settings.num_kv_heads * settings.value_head_dim
    key = np.arange(branch * keys, (branch + 1) * keys)
    value = np.arange(3 * keys + branch * values, 3 * keys + (branch + 1) * values)
    for p in dense.get_parameters():
        taken = parameters[p.name]
        if p.name.startswith("key_value"):
            taken = taken[np.concatenate((key, value))]
        p.set_data(Tensor(taken.astype(np.float32)))
    return dense


@pytest.mark.parametrize("length", [1, 9, 24])
def test_the_selection_of_everything_is_dense_attention(length):
    """Up to select_block_count * select_block_size = 24 tokens every query reads every block."""
    settings, layer, parameters = only(1)
    dense = dense_twin(settings, parameters, 1, window=False)
    x = Tensor(tokens(settings, 3 * length).reshape(3, length, -1))
    ours, expected = layer(x).asnumpy(), dense(x).asnumpy()
    bound = 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(ours, expected, rtol=0, atol=bound)


def test_a_longer_document_is_not():
    settings, layer, parameters = only(1)
    dense = dense_twin(settings, parameters, 1, window=False)
    x = Tensor(tokens(settings, 40)[None])
    difference = np.abs(layer(x).asnumpy() - dense(x).asnumpy()).max(-1)[0]
    assert (difference[:24] < 1e-5).all() and (difference[32:] > 1e-3).any()


def test_the_window_branch_is_dense_attention_with_a_window():
    settings, layer, parameters = only(2)
    dense = dense_twin(settings, parameters, 2, window=True)
    x = Tensor(tokens(settings, 40)[None])
    np.testing.assert_array_equal(layer(x).asnumpy(), dense(x).asnumpy())


def test_the_compression_branch_begins_with_the_first_window():
    """Before it ends a query sees nothing: the output is the bias of the output projection."""
    settings, layer, _ = only(0)
    out = layer(Tensor(tokens(settings, 20)[None])).asnumpy()[0]
    first = settings.compress_block_size - 1
    bias = np.broadcast_to(layer.output.bias.asnumpy(), out[:first].shape)
    np.testing.assert_array_equal(out[:first], bias)
    assert (out[first:] != bias[0]).any(1).all()


def test_compressed_tokens_begin_as_means():
    """Weights start at 1 / l and position encodings at 0."""
    layer = build("sparse", SETTINGS)
    for part in (layer.compress_key, layer.compress_value):
        assert (part.weight.asnumpy() == 1 / SETTINGS.compress_block_size).all()
        assert not part.position.asnumpy().any()
    x = np.random.default_rng(0).standard_normal((20, 2, 8)).astype(np.float32)
    ours = layer.compress_key(Tensor(x), (20,), 4, ms.float32).asnumpy()
    means = [x[c : c + 8].mean(0) for c in range(0, 13, 4)]
    np.testing.assert_allclose(ours, means, atol=1e-6)


@pytest.mark.parametrize("heads, kv_heads", [(3, 3), (6, 1), (8, 4)])
def test_groups_of_any_size(heads, kv_heads):
    settings = config(num_heads=heads, num_kv_heads=kv_heads)
    layer, parameters = filled("sparse", settings)
    x = tokens(settings)
    expected = refer("sparse", x, parameters, settings, ENDS, x)[0]
    bound = 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(to_numpy(layer(Tensor(x), ENDS)), expected, rtol=0, atol=bound)
