"""Layers of all models agree in packing, padding, caches, graphs, dtypes and gradients."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from mindspore_nsa import models
from mindspore_nsa.models._config import Fields
from mindspore_nsa.models.glm_moe_dsa import indexer_types

from .small import HIDDEN, KINDS, PICKING, error, layer_of, text_of

EVERY = pytest.mark.parametrize("kind", KINDS)


@EVERY
def test_packed_documents_are_on_their_own(kind):
    layer, x = layer_of(kind), text_of(1, 24)[0]
    ends = (1, 1, 8, 24)
    out = layer(Tensor(x), ends).asnumpy()
    np.testing.assert_array_equal(layer(Tensor(x), Tensor(ends)).asnumpy(), out)
    for begin, end in ((0, 1), (1, 8), (8, 24)):
        alone = layer(Tensor(x[None, begin:end])).asnumpy()[0]
        assert error(out[begin:end], alone) < 1e-5, (begin, end)


@EVERY
def test_padding_changes_nothing_of_the_other_tokens(kind):
    layer, x = layer_of(kind), text_of(2, 14)
    padding = np.zeros((2, 14), bool)
    padding[0, :3] = padding[1, 12:] = padding[1, :1] = True
    out = layer(Tensor(x), key_padding_mask=Tensor(padding)).asnumpy()
    assert not out[padding].any()
    for row in range(2):
        alone = layer(Tensor(x[row][~padding[row]][None])).asnumpy()[0]
        assert error(out[row][~padding[row]], alone) < 1e-5, row


@EVERY
def test_a_cache_in_pieces_gives_the_whole(kind):
    layer, x = layer_of(kind), text_of(2, 21)
    whole = layer(Tensor(x)).asnumpy()
    cache = layer.new_cache(2, 23)
    pieces = []
    for begin, end in ((0, 1), (1, 9), (9, 10), (10, 11), (11, 12), (12, 21)):
        pieces.append(layer(Tensor(x[:, begin:end].copy()), cache=cache).asnumpy())
    assert error(np.concatenate(pieces, 1), whole) < 1e-5
    assert cache.lengths.asnumpy().tolist() == [21, 21]
    cache.reset([1])
    again = layer(Tensor(np.concatenate((x[0, :2], x[1, :5]))), (2, 7), cache=cache).asnumpy()
    assert error(again[2:], whole[1, :5]) < 1e-5


@EVERY
def test_rows_of_a_cache_have_lengths_of_their_own(kind):
    layer, x = layer_of(kind), text_of(3, 20)
    whole = layer(Tensor(x)).asnumpy()
    cache, lengths = layer.new_cache(3, 20), np.zeros(3, int)
    for counts in ((7, 0, 2), (1, 5, 1), (4, 6, 9), (0, 1, 3)):
        rows = [x[row, n : n + count] for row, (n, count) in enumerate(zip(lengths, counts))]
        out = layer(Tensor(np.concatenate(rows)), np.cumsum(counts).tolist(), cache=cache)
        want = [whole[row, n : n + count] for row, (n, count) in enumerate(zip(lengths, counts))]
        assert error(out.asnumpy(), np.concatenate(want)) < 1e-5, counts
        lengths += counts
    np.testing.assert_array_equal(cache.lengths.asnumpy(), lengths)


class _Step(nn.Cell):
    def __init__(self, layer, slope):
        super().__init__()
        self.layer, self.slope = layer, slope

    def construct(self, x):
        return (self.layer(x) * self.slope).sum()


# Compiling takes seconds; what the others are made of stands in these. Graphs on a CPU neither add
# nor reshape bfloat16, so some compute in that.
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("deepseek_v32", ms.bfloat16),
        ("minimax_m3", ms.bfloat16),
        ("v4_csa", ms.bfloat16),
        ("qwen4_exp", ms.float32),
        ("glm5_next", ms.float32),
    ],
)
def test_graphs_give_what_pynative_gives(kind, dtype):
    layer, x = layer_of(kind).to_float(dtype), Tensor(text_of(2, 10)).astype(dtype)
    step = _Step(layer, Tensor(text_of(2, 10, 1)))
    want = ms.value_and_grad(step, 0, layer.trainable_params())(x)
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        got = ms.value_and_grad(step, 0, layer.trainable_params())(x)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    assert abs(float(got[0]) - float(want[0])) < 1e-4 * max(1, abs(float(want[0])))
    pairs = zip((got[1][0], *got[1][1]), (want[1][0], *want[1][1]), strict=True)
    # Sums of several gradients are rounded to 8 bits in another order.
    bound = 1e-5 if dtype == ms.float32 else 2**-7
    for i, (mine, theirs) in enumerate(pairs):
        assert mine.dtype == theirs.dtype
        mine, theirs = mine.float().asnumpy(), theirs.float().asnumpy()
        assert np.abs(mine - theirs).max() <= bound * max(1, np.abs(theirs).max()), i


def test_a_layer_that_is_the_graph_itself():
    """Not as a part of another Cell, and without a cache, which such a layer looks for."""
    layer, x = layer_of("deepseek_v32"), Tensor(text_of(1, 6))
    want = layer(x).asnumpy()
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        assert error(layer(x).asnumpy(), want) < 1e-5
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def test_decorated_functions_and_recompute_give_what_pynative_gives():
    layer, x = layer_of("v4_hca"), Tensor(text_of(1, 9))
    step = ms.value_and_grad(_Step(layer, Tensor(text_of(1, 9, 1))), 0)
    value, gradient = step(x)
    layer.recompute()
    got, again = ms.jit(step)(x)
    assert abs(float(got) - float(value)) < 1e-4 * max(1, abs(float(value)))
    assert error(again.asnumpy(), gradient.asnumpy()) < 1e-5


@EVERY
@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16])
def test_operands_of_16_bits(kind, dtype):
    layer = layer_of(kind)
    x = Tensor(text_of(1, 12)).astype(dtype)
    # Near-ties of the scores may fall otherwise, so the picks are those of float32.
    options = {}
    if kind in PICKING:
        options["topk_indices"] = layer(x.float(), return_indices=True)[1]
    want = layer(x.float(), **options).asnumpy()
    got = layer(x, **options)
    assert got.dtype == dtype
    bound = 0.02 if dtype == ms.bfloat16 else 0.003
    assert 0 < error(got.float().asnumpy(), want) < bound
    marked = layer_of(kind).to_float(dtype)(x.float(), **options)
    assert marked.dtype == dtype
    np.testing.assert_array_equal(marked.float().asnumpy(), got.float().asnumpy())


def _gradients(layer, x, function):
    of_x, of_parameters = ms.grad(function, 0, layer.trainable_params())(Tensor(x))
    names = [p.name for p in layer.trainable_params()]
    found = dict(zip(names, (g.asnumpy() for g in of_parameters), strict=True))
    return {"x": of_x.asnumpy(), **found}


@pytest.mark.parametrize("kind", PICKING)
def test_indexers_get_no_gradient_of_the_models_loss(kind):
    layer, x = layer_of(kind), text_of(1, 12)
    found = _gradients(layer, x, lambda x: (layer(x) ** 2).sum())
    for name, gradient in found.items():
        assert gradient.any() != ("indexer" in name), name


@pytest.mark.parametrize("kind", ["deepseek_v32", "glm_moe_dsa", "v4_csa"])
@pytest.mark.parametrize("stage", ["dense", "sparse"])
def test_the_kl_loss_trains_the_indexer_alone(kind, stage):
    layer, x = layer_of(kind), text_of(2, 12)
    found = _gradients(layer, x, lambda x: layer.indexer_loss(x, stage=stage))
    for name, gradient in found.items():
        assert gradient.any() == ("indexer" in name), name
    optimizer = nn.Adam([p for p in layer.trainable_params() if "indexer" in p.name], 3e-3)
    step = ms.value_and_grad(
        lambda x: layer.indexer_loss(x, stage=stage), None, optimizer.parameters
    )
    losses = []
    for _ in range(8):
        loss, gradients = step(Tensor(x))
        optimizer(gradients)
        losses.append(float(loss))
    assert losses[-1] < losses[0], losses


@pytest.mark.parametrize("kind", PICKING)
def test_given_picks_are_taken(kind):
    layer, x = layer_of(kind), Tensor(text_of(2, 12))
    out, picks = layer(x, return_indices=True)
    assert picks.dtype == ms.int32 and picks.shape[:2] == (2, 12)
    np.testing.assert_array_equal(layer(x, topk_indices=picks).asnumpy(), out.asnumpy())
    fewer = picks.asnumpy().copy()
    fewer[..., 0] = -1
    other, again = layer(x, topk_indices=Tensor(fewer), return_indices=True)
    np.testing.assert_array_equal(again.asnumpy(), fewer)
    assert error(other.asnumpy(), out.asnumpy()) > 1e-3
    packed = layer(
        x.reshape(24, HIDDEN), (12, 24), topk_indices=picks.reshape(24, *picks.shape[2:])
    )
    assert error(packed.asnumpy().reshape(out.shape), out.asnumpy()) < 1e-6


@pytest.mark.parametrize("kind", ["deepseek_v32", "qwen4_exp", "v4_csa"])
def test_of_equal_scores_the_lowest_index_comes_first(kind):
    layer = layer_of(kind)
    for parameter in layer.get_parameters():
        if "indexer" in parameter.name and parameter.ndim == 2:
            parameter.set_data(ops.zeros_like(parameter))
    _, picks = layer(Tensor(text_of(1, 20)), return_indices=True)
    found = picks.asnumpy()[0, -1]
    count = {"deepseek_v32": 4, "qwen4_exp": 2, "v4_csa": 2}[kind]
    assert found[:count].tolist() == list(range(count))


def test_shared_layers_take_the_picks_of_the_one_before():
    full, shared = (layer_of("glm_moe_dsa", seed, indexer_types=[kind])
                    for seed, kind in ((0, "full"), (1, "shared")))  # fmt: skip
    assert not any("indexer" in p.name for p in shared.get_parameters())
    x = Tensor(text_of(2, 9))
    y, picks = full(x, return_indices=True)
    out, again = shared(y, topk_indices=picks, return_indices=True)
    np.testing.assert_array_equal(again.asnumpy(), picks.asnumpy())
    caches = full.new_cache(2, 9), shared.new_cache(2, 9)
    for i in range(9):
        piece, found = full(x[:, i : i + 1].copy(), cache=caches[0], return_indices=True)
        got = shared(piece, cache=caches[1], topk_indices=found)
        assert error(got.asnumpy()[:, 0], out.asnumpy()[:, i]) < 1e-5, i


V4_NAMES = {
    "wq_a.weight": "q_a_proj.weight",
    "q_norm.weight": "q_a_norm.weight",
    "wq_b.weight": "q_b_proj.weight",
    "wkv.weight": "kv_proj.weight",
    "kv_norm.weight": "kv_norm.weight",
    "wo_a.weight": "o_a_proj.weight",
    "wo_b.weight": "o_b_proj.weight",
    "attn_sink": "sinks",
    "compressor.wkv.weight": "compressor.kv_proj.weight",
    "compressor.wgate.weight": "compressor.gate_proj.weight",
    "compressor.ape": "compressor.position_bias",
    "compressor.norm.weight": "compressor.kv_norm.weight",
    "indexer.wq_b.weight": "compressor.indexer.q_b_proj.weight",
    "indexer.weights_proj.weight": "compressor.indexer.scorer.weights_proj.weight",
    "indexer.compressor.wkv.weight": "compressor.indexer.kv_proj.weight",
    "indexer.compressor.wgate.weight": "compressor.indexer.gate_proj.weight",
    "indexer.compressor.ape": "compressor.indexer.position_bias",
    "indexer.compressor.norm.weight": "compressor.indexer.kv_norm.weight",
}


def test_a_checkpoint_loads_by_the_makers_names():
    layer, other = layer_of("v4_csa", 0), layer_of("v4_csa", 1)
    own = {p.name: p for p in layer.get_parameters()}
    assert set(V4_NAMES.values()) == set(own)
    saved = {f"layers.2.attn.{theirs}": own[name] for theirs, name in V4_NAMES.items()}
    saved["layers.2.ffn.gate.weight"] = Tensor([1.0])
    found = models.attention_parameters(other, saved, "layers.2.attn.")
    assert ms.load_param_into_net(other, found) == ([], [])
    x = Tensor(text_of(1, 9))
    np.testing.assert_array_equal(other(x).asnumpy(), layer(x).asnumpy())


@EVERY
def test_a_state_dict_loads_by_its_own_names(kind, tmp_path):
    layer, other = layer_of(kind, 0), layer_of(kind, 1)
    path = str(tmp_path / "layer.safetensors")
    ms.save_checkpoint(layer, path, format="safetensors")
    saved = ms.load_checkpoint(path, format="safetensors")
    assert ms.load_param_into_net(other, saved) == ([], [])
    x = Tensor(text_of(1, 6))
    np.testing.assert_array_equal(other(x).asnumpy(), layer(x).asnumpy())


@pytest.mark.parametrize("every", [None, 0, 1, 2, 3, 5])
@pytest.mark.parametrize("offset", [None, 0, 1, 2, 4])
def test_layers_that_share_picks_by_number(every, offset):
    """Layers before the offset are full, and from the last of them on each of a number."""
    given = {"index_topk_freq": every, "index_skip_topk_offset": offset, "num_hidden_layers": 11}
    fields = Fields("layer", {"hidden_size": 8, **given}, {}, ("glm_moe_dsa",), 0)
    first, step = (2 if offset is None else offset) - 1, every or 1
    full = {*range(first), *range(first, 11, step)}
    assert indexer_types(fields) == ["full" if i in full else "shared" for i in range(11)]
