"""The attention layers' definition: against loops over queries, and by finite differences."""

import numpy as np
import pytest

from mindspore_nsa import reference
from mindspore_nsa.nn import RopeScaling
from tests.common.differences import check_gradient
from tests.common.layers import draw_parameters, small

ENDS = [0, 21, 24, 24, 60]  # two empty documents, one shorter than a window


def turned(vector, position, theta):
    """A vector as pairs (i, i + D/2), each turned by its angle."""
    half = len(vector) // 2
    z = vector[:half] + 1j * vector[half:]
    z = z * np.exp(1j * position * theta ** (-np.arange(half) / half))
    return np.concatenate((z.real, z.imag))


def attend(query, keys, values, scale):
    """Softmax attention of one query over a list of keys; nothing where there are none."""
    if not keys:
        return 0.0
    scores = scale * np.array(keys) @ query
    weights = np.exp(scores - scores.max())
    return (weights / weights.sum()) @ np.array(values)


def compressed_tokens(k, v, h, parameters, c):
    """Lists of the keys (rotated) and values of every window of one document and kv head."""
    keys, values = [], []
    for start in range(0, len(k) - c.compress_block_size + 1, c.compress_stride):
        sums = []
        for x, name in ((k, "compress_key"), (v, "compress_value")):
            w, pe = parameters[f"{name}.weight"], parameters[f"{name}.position"]
            sums.append(
                sum(w[j, h] * (x[start + j, h] + pe[j, h]) for j in range(c.compress_block_size))
            )
        keys.append(turned(sums[0], start, c.rope_theta))
        values.append(sums[1])
    return keys, values


def chosen_blocks(i, queries, keys, c, scale):
    """The blocks that the queries of one group at position i read."""
    own = i // c.select_block_size
    scores = np.zeros(own + 1)
    for q in queries:
        scored = scale * np.array(keys) @ q if keys else np.zeros(0)
        p = np.exp(scored) / np.exp(scored).sum()
        for window, probability in enumerate(p):
            # Strides of the window inside each block.
            for piece in range(c.compress_block_size // c.compress_stride):
                block = (window + piece) * c.compress_stride // c.select_block_size
                if block <= own:
                    scores[block] += probability
    forced = {*range(c.init_blocks), *range(own - c.local_blocks + 1, own + 1)}
    forced = sorted(b for b in forced if 0 <= b <= own)
    others = sorted((b for b in range(own + 1) if b not in forced), key=lambda b: (-scores[b], b))
    return (forced + others)[: c.select_block_count]


def document(x, parameters, c):
    """The layer's output before Wo for one document, query by query."""
    n, d, dv = c.num_kv_heads, c.head_dim, c.value_head_dim
    group, scale = c.num_heads // n, d**-0.5
    q = (x @ parameters["query.weight"].T).reshape(len(x), c.num_heads, d)
    kv = x @ parameters["key_value.weight"].T
    k = kv[:, : 3 * n * d].reshape(len(x), 3, n, d)
    v = kv[:, 3 * n * d :].reshape(len(x), 3, n, dv)
    gates = 1 / (1 + np.exp(-(x @ parameters["gates.linear.weight"].T)))
    gates = gates.reshape(len(x), 3, c.num_heads)
    out = np.zeros((len(x), c.num_heads, dv))
    for h in range(n):
        cmp_keys, cmp_values = compressed_tokens(k[:, 0], v[:, 0], h, parameters, c)
        rotated = [[turned(k[t, b, h], t, c.rope_theta) for t in range(len(x))] for b in range(3)]
        for i in range(len(x)):
            seen = max(0, (i - c.compress_block_size + 1) // c.compress_stride + 1)
            heads = range(h * group, (h + 1) * group)
            queries = [turned(q[i, g], i, c.rope_theta) for g in heads]
            blocks = chosen_blocks(i, queries, cmp_keys[:seen], c, scale)
            size = c.select_block_size
            slc = [t for b in blocks for t in range(b * size, (b + 1) * size) if t <= i]
            win = range(max(0, i - c.window_size + 1), i + 1)
            for g, query in zip(heads, queries):
                out[i, g] = (
                    gates[i, 0, g] * attend(query, cmp_keys[:seen], cmp_values[:seen], scale)
                    + gates[i, 1, g] * attend(query, [rotated[1][t] for t in slc],
                                              [v[t, 1, h] for t in slc], scale)
                    + gates[i, 2, g] * attend(query, [rotated[2][t] for t in win],
                                              [v[t, 2, h] for t in win], scale)
                )  # fmt: skip
    return out.reshape(len(x), c.num_heads * dv) @ parameters["output.weight"].T


@pytest.mark.parametrize("changes", [{}, {"num_kv_heads": 1, "init_blocks": 0, "local_blocks": 2},
                                     {"num_kv_heads": 4, "compress_stride": 8}])  # fmt: skip
def test_against_loops(changes):
    rng = np.random.default_rng(0)
    c = small(**changes)
    parameters, x = draw_parameters(c, rng), rng.standard_normal((60, c.hidden_size))
    ours = reference.native_sparse_attention(x, parameters, c, actual_seq_len=ENDS)
    starts = [0, *ENDS[:-1]]
    parts = [document(x[a:b], parameters, c) for a, b in zip(starts, ENDS)]
    np.testing.assert_allclose(ours, np.concatenate(parts), rtol=1e-9, atol=1e-11)


LAYERS = {
    "sparse": (reference.native_sparse_attention, reference.native_sparse_attention_grad, {}),
    "dense": (reference.dense_attention, reference.dense_attention_grad, {"window": False}),
    "window": (reference.dense_attention, reference.dense_attention_grad, {"window": True}),
}


YARN = RopeScaling("yarn", 4.0, original_max_position_embeddings=64, beta_fast=8.0)
OPTIONS = {
    "usual": {},
    "others": {
        **{"qk_norm": True, "qk_norm_eps": 1e-2, "shared_kv": True, "gating": "residual"},
        **{"rope_pairs": "interleaved", "rope_scaling": YARN},
    },
    "norms of sets": {"qk_norm": True},
}


@pytest.mark.parametrize("changes", OPTIONS)
@pytest.mark.parametrize("layer", LAYERS)
def test_gradients(layer, changes):
    forward, backward, options = LAYERS[layer]
    rng = np.random.default_rng(1)
    c = small(has_bias=True, **OPTIONS[changes])
    parameters = draw_parameters(c, rng, dense=layer != "sparse")
    x = rng.standard_normal((60, c.hidden_size))
    upstream = rng.standard_normal(x.shape)

    def loss():
        return (forward(x, parameters, c, actual_seq_len=ENDS, **options) * upstream).sum()

    dx, grads = backward(upstream, x, parameters, c, actual_seq_len=ENDS, **options)
    assert grads.keys() == parameters.keys()
    check_gradient(loss, x, dx, rng)
    for name, p in parameters.items():
        assert grads[name].any(), name
        check_gradient(loss, p, grads[name], rng, places=4)


def plain_pass(x, parameters, c):
    """Norms, reorders and repeats the heads, which a layer without these options takes as input."""
    n, d, tokens = c.num_kv_heads, c.head_dim, len(x)

    def normed(heads, weight):
        return heads / np.sqrt((heads**2).mean(-1, keepdims=True) + c.qk_norm_eps) * weight

    pairs = np.arange(d).reshape(-1, 2).T.reshape(-1)
    query = (x @ parameters["query.weight"].T).reshape(tokens, c.num_heads, d)
    both = x @ parameters["key_value.weight"].T
    key, value = both[:, : n * d].reshape(tokens, n, d), both[:, n * d :]
    query = normed(query, parameters["query_norm.weight"])[..., pairs]
    key = normed(key, parameters["key_norm.weight"])[..., pairs]
    return query.reshape(tokens, -1), np.tile(key.reshape(tokens, -1), 3), np.tile(value, 3)


def test_options_by_other_parameters():
    """A layer that is given normed, reordered and repeated heads as its input needs no option."""
    rng = np.random.default_rng(5)
    usual = dict(has_bias=True, value_head_dim=8)
    c = small(qk_norm=True, shared_kv=True, gating="residual", rope_pairs="interleaved", **usual)
    parameters, x = draw_parameters(c, rng), rng.standard_normal((60, c.hidden_size))
    for name in ("query", "key_value", "output"):
        parameters[f"{name}.bias"][:] = 0
    ours = reference.native_sparse_attention(x, parameters, c, actual_seq_len=ENDS)

    inputs = np.concatenate((*plain_pass(x, parameters, c), x), 1)
    plain = small(hidden_size=inputs.shape[1], **usual)
    widths = np.cumsum([0, c.num_heads * 8, 48, 48, c.hidden_size])
    places = [np.arange(a, b) for a, b in zip(widths, widths[1:])]
    rows = np.eye(inputs.shape[1])
    pairs = np.arange(8).reshape(-1, 2).T.reshape(-1)
    position = parameters["compress_key.position"][..., pairs]
    gates = np.zeros((3 * c.num_heads, inputs.shape[1]))
    gates[:, places[3]] = parameters["gates.linear.weight"]
    others = {
        **parameters,
        **{"query.weight": rows[places[0]], "query.bias": np.zeros(32)},
        "key_value.weight": rows[np.concatenate(places[1:3])],
        **{"key_value.bias": np.zeros(96), "gates.linear.weight": gates},
        **{"compress_key.position": position, "output.weight": np.eye(32)},
        "output.bias": np.zeros(32),
    }

    def pass_with(weight, bias):
        gated = {**others, "gates.linear.weight": weight, "gates.linear.bias": bias}
        out = reference.native_sparse_attention(inputs, gated, plain, actual_seq_len=ENDS)
        return out[:, :32]

    # The sum is linear in the gates; a bias alone opens one branch and closes the others.
    first, last = (
        pass_with(np.zeros_like(gates), np.where(np.arange(12) // 4 == branch, 1e3, -1e3))
        for branch in (0, 2)
    )
    mixed = 2 * pass_with(gates, parameters["gates.linear.bias"]) - first - last
    np.testing.assert_allclose(mixed @ parameters["output.weight"].T, ours, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("layer", LAYERS)
def test_documents_and_time(layer):
    """Nothing of a later token or of another document reaches an output."""
    forward, _, options = LAYERS[layer]
    rng = np.random.default_rng(2)
    c = small()
    parameters = draw_parameters(c, rng, dense=layer != "sparse")
    x = rng.standard_normal((60, c.hidden_size))
    before = forward(x, parameters, c, actual_seq_len=ENDS, **options)
    x[40:] += 1
    x[:24] -= 1
    after = forward(x, parameters, c, actual_seq_len=ENDS, **options)
    np.testing.assert_array_equal(after[24:40], before[24:40])
    assert (after[40:] != before[40:]).any() and (after[:24] != before[:24]).any()


def test_window_of_the_dense_layer():
    """A window as long as the document is no window."""
    rng = np.random.default_rng(3)
    c = small()
    parameters, x = draw_parameters(c, rng, dense=True), rng.standard_normal((60, c.hidden_size))
    whole, window, long = (
        reference.dense_attention(x, parameters, small(window_size=w), window=b,
                                  actual_seq_len=ENDS)
        for w, b in ((10, False), (10, True), (60, True))
    )  # fmt: skip
    np.testing.assert_array_equal(long, whole)
    assert (window[:10] == whole[:10]).all() and (window[10:21] != whole[10:21]).any()
