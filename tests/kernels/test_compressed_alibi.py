"""The compressed alibi form has no entries above the diagonal: nothing of them is read."""

import numpy as np
import pytest

from mindspore_nsa import _native, reference

S, D = 2100, 4


def _call(real_shift, **attrs):
    draw = np.random.default_rng(1)
    query, key, value = (draw.standard_normal((1, 1, S, D)).astype(np.float32) for _ in range(3))
    mask = attrs.pop("attn_mask", None)
    attrs = {
        "head_num": 1, "keep_prob": 1.0, "scalar_value": 0.5, "pre_tokens": 2147483647,
        "next_tokens": 2147483647, "input_layout": "BNSD", "pse_type": 0, **attrs,
    }  # fmt: skip
    arguments = {name: attrs[name] for name in attrs if name != "head_num"}
    inputs = [query, key, value, real_shift, None, mask, None, None, None, None, None, None]
    expected = reference.flash_attention_score(
        query, key, value, 1, real_shift=real_shift, attn_mask=mask, **arguments
    )
    return _native.run("FlashAttentionScore", inputs, attrs)[0], expected[0]


@pytest.mark.parametrize("masked", ["above the diagonal", "nowhere"])
def test_mask_tensor(masked):
    """Mode 0 with a mask tensor is causal for this form, as modes 2 and 3 are by themselves."""
    real_shift = np.random.default_rng(2).standard_normal((1, 1, 1024, S)).astype(np.float32)
    mask = np.zeros((S, S), np.uint8)
    if masked != "nowhere":
        mask = np.triu(mask + 1, 1)
    causal, expected = _call(real_shift, sparse_mode=2)
    np.testing.assert_allclose(causal, expected, atol=1e-5 * np.abs(expected).max())
    for form in ({"attn_mask": mask}, {"next_tokens": 0}, {"attn_mask": mask, "next_tokens": 7}):
        ours, expected = _call(real_shift, sparse_mode=0, **form)
        np.testing.assert_allclose(ours, causal, atol=1e-6)
        np.testing.assert_allclose(ours, expected, atol=1e-5 * np.abs(expected).max())
