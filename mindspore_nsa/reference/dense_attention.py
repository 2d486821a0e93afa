"""The dense attention layer and its gradient."""

from .flash_attention_score import flash_attention_score, flash_attention_score_grad
from .layer import Layer, run, run_grad
from .masks import UNBOUNDED
from .precision import FLOAT64


def flash_attributes(layer, pre_tokens):
    """Arguments of FlashAttentionScore: causal, and no further back than pre_tokens."""
    return {
        "actual_seq_qlen": layer.ends,
        "actual_seq_kvlen": layer.ends,
        "scalar_value": layer.scale,
        "pre_tokens": pre_tokens,
        "next_tokens": 0,
        "input_layout": "TND",
        "sparse_mode": 4,
        "precision": layer.precision,
    }


class _Dense(Layer):
    def __init__(self, window, *arguments):
        super().__init__(*arguments)
        pre_tokens = self.config.window_size - 1 if window else UNBOUNDED
        self.attributes = flash_attributes(self, pre_tokens)

    def attend(self, query, key, value):
        self.inputs = (query, self.rotate(key, self.positions), value)
        self.outputs = flash_attention_score(*self.inputs, self.config.num_heads, **self.attributes)
        return self.outputs[0]

    def attend_grad(self, dout):
        out, row_max, row_sum = self.outputs
        grads = flash_attention_score_grad(
            *self.inputs, dout, self.config.num_heads, row_max, row_sum, out, **self.attributes
        )
        return grads.dq, self.rotate(grads.dk, self.positions, inverse=True), grads.dv, 0


def dense_attention(x, parameters, config, *, actual_seq_len, window=False, precision=FLOAT64):
    """Causal attention over the document, or with `window` over its last window_size tokens.

    out = Attn(RoPE(x Wq), RoPE(x Wk), x Wv) Wo with x [T, hidden]; see layer.py for `parameters`.
    With qk_norm queries and keys are divided by the root mean square of their heads first.
    """
    return run(_Dense(window, parameters, config, actual_seq_len, precision), x)


def dense_attention_grad(
    output_grad, x, parameters, config, *, actual_seq_len, window=False, precision=FLOAT64
):
    """(gradient of x, {name: gradient of the parameter})."""
    layer = _Dense(window, parameters, config, actual_seq_len, precision)
    return run_grad(layer, output_grad, x)
