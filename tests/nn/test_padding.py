"""Padding before and after the tokens of a row: no output, no gradient, no influence."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from tests.ops.calls import context_mode

from .cells import config, filled, tokens

ROWS, LENGTH = 4, 40
# Tokens before and after those of a row; the last row has none of its own.
PADDING = ((0, 0), (13, 0), (0, 11), (40, 0))


def padding_mask():
    mask = np.zeros((ROWS, LENGTH), bool)
    for row, (before, after) in enumerate(PADDING):
        mask[row, :before] = mask[row, LENGTH - after :] = True
    return mask


class Total(nn.Cell):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, mask, upstream):
        out = self.layer(x, key_padding_mask=mask)
        return ops.sum(ops.cast(out, ms.float32) * upstream), out


@pytest.mark.parametrize("kind, mode", [("sparse", "pynative"), ("sparse", "graph"),
                                        ("dense", "pynative")])  # fmt: skip
def test_padding(kind, mode):
    layer, _ = filled(kind, config(has_bias=True))
    mask, hidden = padding_mask(), config().hidden_size
    x = tokens(config(), ROWS * LENGTH).reshape(ROWS, LENGTH, hidden)
    upstream = tokens(config(), ROWS * LENGTH, seed=2).reshape(x.shape)
    spoiled = np.where(mask[..., None], np.nan, x).astype(np.float32)
    parameters = layer.trainable_params()
    with context_mode(mode):
        step = ms.value_and_grad(Total(layer), 0, parameters, has_aux=True)
        (_, out), (dx, grads) = step(Tensor(spoiled), Tensor(mask), Tensor(upstream))
    out, dx = out.asnumpy(), dx.asnumpy()
    assert not out[mask].any() and not dx[mask].any()

    sums = [np.zeros(p.shape) for p in parameters]
    for row, (before, after) in enumerate(PADDING):
        if before == LENGTH:
            continue
        kept = slice(before, LENGTH - after)
        nothing = Tensor(np.zeros((1, LENGTH - after - before), bool))
        alone = ms.value_and_grad(Total(layer), 0, parameters, has_aux=True)
        (_, expected), (expected_dx, expected_grads) = alone(
            Tensor(x[row : row + 1, kept]), nothing, Tensor(upstream[row : row + 1, kept])
        )
        np.testing.assert_allclose(out[row, kept], expected.asnumpy()[0], rtol=0, atol=2e-6)
        np.testing.assert_allclose(dx[row, kept], expected_dx.asnumpy()[0], rtol=0, atol=1e-5)
        for total, gradient in zip(sums, expected_grads):
            total += gradient.asnumpy()
    for total, gradient in zip(sums, grads):
        bound = 1e-5 * np.abs(total).max()
        np.testing.assert_allclose(gradient.asnumpy(), total, rtol=0, atol=bound)


def test_no_padding_and_narrow_inputs():
    layer, _ = filled("sparse", config())
    x = tokens(config(), 60).reshape(2, 30, -1)
    mask = np.zeros((2, 30), bool)
    given, nothing = Tensor(x), Tensor(mask)
    np.testing.assert_array_equal(layer(given, key_padding_mask=nothing).asnumpy(), layer(given))
    mask[0, :4] = True
    for dtype in (ms.bfloat16, ms.float16):
        out = layer(given.astype(dtype), key_padding_mask=Tensor(mask))
        assert out.dtype == dtype
        out = out.astype(ms.float32).asnumpy()
        alone = layer(given[:1, 4:].astype(dtype)).astype(ms.float32).asnumpy()
        np.testing.assert_allclose(out[0, 4:], alone[0], atol=2e-2)
        assert not out[0, :4].any()


MASK = Tensor(np.zeros((2, 30), bool))
REFUSED = {
    "type": (True, TypeError, r"key_padding_mask must be a Tensor or None, got True \(bool\)"),
    "dtype": (Tensor(np.zeros((2, 30), np.int64)), TypeError,
              "key_padding_mask must be of dtype bool, .*, got int64; .* it is mask == 0"),
    "shape": (Tensor(np.zeros((2, 29), bool)), ValueError,
              r"key_padding_mask must be of shape \(2, 30\), got \(2, 29\)"),
    "rank": (Tensor(np.zeros(30, bool)), ValueError, "key_padding_mask must be of shape"),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, mode):
    mask, error, text = REFUSED[case]
    layer, _ = filled("sparse", config())
    x = Tensor(tokens(config(), 60).reshape(2, 30, -1))
    with context_mode(mode), pytest.raises(error, match=f"NativeSparseAttention: {text}"):
        layer(x, None, None, mask)


def test_refused_together():
    layer, _ = filled("sparse", config())
    x = Tensor(tokens(config(), 60))
    with pytest.raises(ValueError, match="key_padding_mask must be None for packed x"):
        layer(x, (60,), key_padding_mask=MASK)
    cache = layer.new_cache(2, 60)
    with pytest.raises(ValueError, match="key_padding_mask must be None with a cache"):
        layer(x.reshape(2, 30, -1), cache=cache, key_padding_mask=MASK)


def test_padding_between_tokens():
    layer, _ = filled("sparse", config())
    x = Tensor(tokens(config(), 60).reshape(2, 30, -1))
    mask = padding_mask()[:2, :30]
    mask[1, 20] = True
    text = "must be True only before and after the tokens of a row, got .* of row 1"
    with pytest.raises(ValueError, match=text):
        layer(x, key_padding_mask=Tensor(mask))
    with (
        context_mode("graph"),
        pytest.raises(RuntimeError, match="Attention: key_padding_mask must"),
    ):
        layer(x, key_padding_mask=Tensor(mask)).asnumpy()
