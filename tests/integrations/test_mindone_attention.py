"""mindone's attention function against NumPy: masks, biases, what it takes and what it refuses."""

import types

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from mindspore_nsa.integrations._mindone_attention import IRRELEVANT, REFUSED, attention

LOWEST = float(np.finfo(np.float32).min)


def draw(length=7, keys=7, heads=4, kv_heads=2, seed=0, dim=16, value_dim=16):
    rng = np.random.default_rng(seed)
    shapes = ((heads, length, dim), (kv_heads, keys, dim), (kv_heads, keys, value_dim))
    return [rng.standard_normal((2, *shape)).astype(np.float32) for shape in shapes]


def expected(qkv, added, scaling=None, sink=None):
    """Softmax of the scores and what is added to them, in float64, as [B, S, N, D]."""
    query, key, value = (x.astype(np.float64) for x in qkv)
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat(group, 1), value.repeat(group, 1)
    scores = query @ key.swapaxes(2, 3) * (scaling or query.shape[-1] ** -0.5) + added
    extra = np.full((1, 1, 1, 1), -np.inf) if sink is None else sink.reshape(1, -1, 1, 1)
    largest = np.maximum(scores.max(-1, keepdims=True), extra)
    weights = np.exp(scores - largest)
    weights = weights / (weights.sum(-1, keepdims=True) + np.exp(extra - largest))
    return (weights @ value).swapaxes(1, 2)


def hidden(seen):
    return np.where(seen, 0.0, -np.inf)


def causal(length, keys, window=None):
    rows, columns = np.arange(length)[:, None] + keys - length, np.arange(keys)
    return (columns <= rows) & (columns > rows - (window or keys))


class Attend(nn.Cell):
    """A layer that hands itself on, as those of mindone's models do."""

    def __init__(self, **options):
        super().__init__()
        self.options = options

    def construct(self, query, key, value, mask=None):
        return attention(self, query, key, value, mask, **self.options)[0]


def run(qkv, mask=None, jit=False, attributes=(), **options):
    cell = Attend(**options).set_train(False)
    for name, value in dict(attributes).items():
        setattr(cell, name, value)
    tensors = [Tensor(x) for x in qkv] + ([] if mask is None else [Tensor(mask)])
    if jit:
        return ms.jit(cell.construct)(*tensors).asnumpy()
    return cell(*tensors).asnumpy()


def close(found, wanted, rows=None):
    if rows is not None:
        found, wanted = found[rows], wanted[rows]
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 2e-6 * np.abs(wanted).max()


BOTH = pytest.mark.parametrize("jit", [False, True], ids=["pynative", "jit"])


@BOTH
@pytest.mark.parametrize("attribute", [None, False, True])
@pytest.mark.parametrize("argument", [None, False, True])
def test_causal_or_not(argument, attribute, jit):
    """The argument counts, then the module's attribute; without both attention is causal."""
    given = next((x for x in (argument, attribute) if x is not None), True)
    attributes = {} if attribute is None else {"is_causal": attribute}
    for length, keys in ((3, 7), (1, 7), (7, 7))[: 1 if jit else 3]:
        qkv = draw(length, keys)
        found = run(qkv, jit=jit, attributes=attributes, is_causal=argument)
        close(found, expected(qkv, hidden(causal(length, keys)) if given else 0))


@pytest.mark.parametrize("window", [1, 3, 99])
def test_window_without_a_mask(window):
    for length in (7, 2):
        qkv = draw(length, 7)
        found = run(qkv, sliding_window=window)
        close(found, expected(qkv, hidden(causal(length, 7, window))))
    with pytest.raises(ValueError, match="sliding_window must be None where attention is not"):
        run(qkv, sliding_window=window, is_causal=False)


def padded(left, length=7, keys=7):
    """Rows whose first holds three tokens of padding."""
    seen = np.broadcast_to(causal(length, keys), (2, 1, length, keys)).copy()
    seen[0, :, :, slice(0, 3) if left else slice(4, 7)] = False
    return seen


@BOTH
@pytest.mark.parametrize("form", ["float", "float16", "bool", "wide", "old"])
@pytest.mark.parametrize("left", [True, False])
def test_masks(left, form, jit):
    """Floats of any lowest value and bools; columns behind the keys do not count."""
    qkv, seen = draw(), padded(left)
    masks = {
        "float": np.where(seen, 0, LOWEST).astype(np.float32),
        "float16": np.where(seen, 0, -65504).astype(np.float16),
        "bool": seen,
        "wide": np.pad(np.where(seen, 0, LOWEST).astype(np.float32), [(0, 0)] * 3 + [(0, 2)]),
        "old": np.where(seen, 0, -10000).astype(np.float32),
    }
    found = run(qkv, masks[form], jit=jit)
    real = seen.any(-1)[:, 0]
    close(found, expected(qkv, hidden(seen | ~seen.any(-1, keepdims=True))), real)


def test_queries_that_see_no_key():
    """Eager attention adds its lowest number to all scores there; padding gets into some models."""
    qkv, seen = draw(), padded(left=True)
    mask = np.where(seen, 0, LOWEST).astype(np.float32)
    blind = ~seen.any(-1)[:, 0]
    assert blind.sum() == 3
    for jit in (False, True):
        mean = run(qkv, mask, jit=jit)[blind]
        wanted = qkv[2][0].mean(1).repeat(2, 0)
        np.testing.assert_allclose(mean, np.broadcast_to(wanted, mean.shape), rtol=0, atol=2e-6)
    assert not run(qkv, seen)[blind].any()
    # The additional logit has all the weight there.
    for jit in (False, True):
        found = run(qkv, mask, jit=jit, s_aux=Tensor(np.float32([1, -2, 3, 0])))
        assert not found[blind].any()


def test_masks_of_bfloat16():
    """A CPU compares, broadcasts and averages none; the model's dtype is that of its masks."""
    qkv, seen = [np.round(x * 4) / 4 for x in draw()], padded(left=True)
    lowest = -3.3895e38  # about that of bfloat16
    shift = np.where(seen, np.arange(7) / 2, lowest).astype(np.float32)
    for mask in (np.where(seen, 0, lowest).astype(np.float32), shift):
        narrow = [Tensor(x).astype(ms.bfloat16) for x in (*qkv, mask)]
        found = Attend()(*narrow).astype(ms.float32).asnumpy()
        wanted = expected(qkv, np.where(seen, mask, -1e30))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-2 * np.abs(wanted).max())


@pytest.mark.parametrize("shape", [(1, 1, 7, 7), (2, 4, 7, 7), (2, 1, 1, 7), (1, 4, 1, 7)])
def test_shapes_of_masks(shape):
    """Rows, heads and queries may share a mask."""
    seen = np.random.default_rng(1).random(shape) < 0.6
    seen[..., 0] = True
    for mask in (seen, np.where(seen, 0, LOWEST).astype(np.float32)):
        close(run(draw(), mask), expected(draw(), hidden(seen)))


@BOTH
def test_causal_beside_a_mask(jit):
    """The argument True hides later keys that a mask of padding shows; the attribute does not."""
    seen = np.ones((2, 1, 5, 7), bool)
    seen[0, ..., :2] = False
    both = seen & causal(5, 7)
    qkv, mask = draw(5), np.where(seen, 0, LOWEST).astype(np.float32)
    close(run(qkv, mask, jit=jit, is_causal=True), expected(qkv, hidden(both)))
    close(run(qkv, seen, jit=jit, is_causal=True), expected(qkv, hidden(both)))
    for options in ({"is_causal": False}, {"attributes": {"is_causal": True}}):
        close(run(qkv, mask, jit=jit, **options), expected(qkv, hidden(seen)))


@BOTH
def test_biases(jit):
    """Floats that are no mask are added, as eager attention does, and have their gradient."""
    qkv, rng = draw(), np.random.default_rng(2)
    for shape in ((1, 4, 1, 7), (1, 1, 7, 7), (2, 4, 7, 7))[: 1 if jit else 3]:
        bias = rng.standard_normal(shape).astype(np.float32)
        close(run(qkv, bias, jit=jit), expected(qkv, bias))
        bias[..., 3] = -np.inf
        close(run(qkv, bias, jit=jit), expected(qkv, bias))
        close(run(qkv, bias, jit=jit, is_causal=True), expected(qkv, bias + hidden(causal(7, 7))))


def test_gradient_of_a_bias():
    qkv, rng = [Tensor(x) for x in draw()], np.random.default_rng(3)
    bias = rng.standard_normal((1, 4, 7, 7)).astype(np.float32)
    weights = rng.standard_normal((2, 7, 4, 16))

    def loss(bias):
        return (attention(nn.Cell(), *qkv, bias)[0] * Tensor(weights.astype(np.float32))).sum()

    found = ms.grad(loss)(Tensor(bias)).asnumpy()
    for place in ((0, 1, 2, 3), (0, 3, 6, 0)):
        step = np.zeros(bias.shape)
        step[place] = 1e-5
        there, here = (
            (expected(draw(), bias.astype(np.float64) + sign * step) * weights).sum()
            for sign in (1, -1)
        )
        assert found[place] == pytest.approx((there - here) / 2e-5, abs=1e-4)


@BOTH
def test_factors_and_sinks_of_heads(jit):
    """head_mask multiplies what a head gives; s_aux is a logit without a value."""
    qkv, rng = draw(), np.random.default_rng(4)
    plain = expected(qkv, hidden(causal(7, 7)))
    for shape in ((4,), (1, 4, 1, 1), (2, 4, 1, 1)):
        factors = rng.standard_normal(shape).astype(np.float32)
        wanted = plain * (factors if shape == (4,) else factors[..., 0, 0][:, None])[..., None]
        close(run(qkv, jit=jit, head_mask=Tensor(factors)), wanted)
    sink = rng.standard_normal(4).astype(np.float32)
    wanted = expected(qkv, hidden(causal(7, 7)), sink=sink)
    for shape in ((4,), (1, 4, 1, 1)):
        close(run(qkv, jit=jit, s_aux=Tensor(sink.reshape(shape))), wanted)
    with pytest.raises(ValueError, match=r"head_mask must have shape \(4,\) or .*got \(2,\)"):
        run(qkv, head_mask=Tensor(factors[0, :2, 0, 0]))


def test_scaling_and_sizes():
    """Values of another size than keys, one key head, a scale of the model's own."""
    qkv = draw(kv_heads=1, dim=24, value_dim=16)
    close(run(qkv, scaling=0.7), expected(qkv, hidden(causal(7, 7)), 0.7))


@pytest.mark.parametrize("fixed", [False, True], ids=["dynamic", "static"])
def test_window_beside_a_mask(fixed):
    """A mask that holds the window is taken, in a cache of a fixed length too; others are not."""
    seen = np.broadcast_to(causal(7, 7, 3), (2, 1, 7, 7)).copy()
    seen[0, ..., :2] = False
    if fixed:
        seen = np.pad(seen, [(0, 0)] * 3 + [(0, 4)])
    qkv = draw(keys=seen.shape[-1])
    mask = np.where(seen, 0, LOWEST).astype(np.float32)
    real = seen.any(-1)[:, 0]
    wanted = expected(qkv, hidden(seen | ~seen.any(-1, keepdims=True)))
    close(run(qkv, mask, sliding_window=3), wanted, real)
    # Tokens of a picture see one another, ahead too, which is no fault of the window.
    if not fixed:
        seen[1, :, 2:6, 2:6] = True
        run(qkv, seen, sliding_window=4)
    for given in (mask, seen):
        with pytest.raises(ValueError, match="must leave out keys before the window.* 2"):
            run(qkv, given, sliding_window=2)
    with pytest.raises(ValueError, match="sliding_window must be None in a graph"):
        run(qkv, mask, jit=True, sliding_window=3)


def test_irrelevant_options():
    """Further arguments of mindone have no effect."""
    qkv = draw()
    options = dict.fromkeys(IRRELEVANT, 3) | dict.fromkeys(REFUSED) | {"unknown": None}
    options["output_attentions"] = False
    np.testing.assert_array_equal(run(qkv, **options), run(qkv))


@pytest.mark.parametrize("name", [*REFUSED, "another_option"])
def test_refused_options(name):
    """Nothing that changes attention, or may, is dropped."""
    for jit in (False, True)[: 2 if name in ("softcap", "another_option") else 1]:
        with pytest.raises(ValueError, match=f"attention: {name} must be None: "):
            run(draw(), jit=jit, **{name: 2})


MASK = np.zeros((2, 1, 7, 7), np.float32)
WRONG = {
    "dropout": (ValueError, "dropout must be 0, got 0.5", {"dropout": 0.5}, None),
    "window": (TypeError, "sliding_window must be an int or None", {"sliding_window": 2.0}, None),
    "window 0": (ValueError, "sliding_window must be at least 1", {"sliding_window": 0}, None),
    "causal": (TypeError, "is_causal must be a bool or None, got 1", {"is_causal": 1}, None),
    "ints": (TypeError, "attention_mask must be a Tensor of bools", {}, MASK.astype(np.int64)),
    "rows": (ValueError, "attention_mask must have shape", {}, np.zeros((3, 1, 7, 7), np.float32)),
    "columns": (ValueError, r"got \(2, 1, 7, 6\)", {}, MASK[..., :6]),
    "2-D": (ValueError, r"7 or more\), got \(2, 7\)", {}, MASK[:, 0, 0]),
    "heads": (ValueError, "masks of heads are no attention_mask", {}, MASK[:1, :, :1, :1]),
}


@BOTH
@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(case, jit):
    error, text, options, mask = WRONG[case]
    with pytest.raises(error, match=text):
        run(draw(), mask, jit=jit, **options)


def test_attributes_that_change_attention():
    """ESM's relative embeddings stand in its eager attention only."""
    module = types.SimpleNamespace(position_embedding_type="relative_key")
    qkv = [Tensor(x) for x in draw()]
    with pytest.raises(ValueError, match="position_embedding_type of the module must not be 'rel"):
        attention(module, *qkv, None)
    module.position_embedding_type = "rotary"
    attention(module, *qkv, None)
