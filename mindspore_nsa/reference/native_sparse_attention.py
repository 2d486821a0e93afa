"""The Native Sparse Attention layer and its gradient."""

import numpy as np

from .dense_attention import flash_attributes
from .flash_attention_score import flash_attention_score, flash_attention_score_grad
from .layer import Layer, positions, run, run_grad
from .nsa_compress import nsa_compress, nsa_compress_grad
from .nsa_compress_attention import nsa_compress_attention, nsa_compress_attention_grad
from .nsa_selected_attention import nsa_selected_attention, nsa_selected_attention_grad
from .precision import FLOAT64
from .segments import compressed_seq_len


class _Sparse(Layer):
    branches = 3

    def __init__(self, *arguments):
        super().__init__(*arguments)
        c = self.config
        self.window = (c.compress_block_size, c.compress_stride)
        self.cmp_ends = compressed_seq_len(self.ends, *self.window)
        self.cmp_positions = positions(self.cmp_ends) * c.compress_stride
        self.causal = {"causal": True, "actual_seq_qlen": self.ends, "precision": self.precision}
        self.flash = flash_attributes(self, c.window_size - 1)

    def compress(self, x, name):
        """sum_j w[j] * (x[c s + j] + position[j]), [T', N2, dim]."""
        weight = self.parameters[f"{name}.weight"]
        position = self.parameters[f"{name}.position"]
        out = nsa_compress(
            x, weight, *self.window, actual_seq_len=self.ends, precision=self.precision
        )
        return out + self.precision.sum(weight[..., None] * position, axis=0)

    def compress_grad(self, dy, x, name):
        """dx; the encodings add sum_c dy[c] times the other factor to both gradients."""
        weight = self.parameters[f"{name}.weight"]
        position = self.parameters[f"{name}.position"]
        dx, dweight = nsa_compress_grad(
            dy, x, weight, *self.window, actual_seq_len=self.ends, precision=self.precision
        )
        total = self.precision.sum(dy, axis=0)  # [N2, dim]
        self.grads[f"{name}.weight"] = dweight + self.precision.sum(position * total, axis=-1)
        self.grads[f"{name}.position"] = weight[..., None] * total
        return dx

    def gates(self):
        """sigmoid(x Wg), [T, 3, N1, 1], and the gates that follow from them."""
        logits = self.linear(self.x, "gates.linear")
        sigmoid = 1 / (1 + np.exp(-logits))
        sigmoid = sigmoid.reshape(len(self.x), 3, self.config.num_heads, 1)
        if self.config.gating == "sigmoid":
            return sigmoid, sigmoid
        others = self.precision.array([1, 0, 1]).reshape(3, 1, 1)
        return sigmoid, 2 * sigmoid - others

    def attend(self, query, key, value):
        c, n = self.config, self.config.num_kv_heads
        self.k_cmp, k_slc, k_win = key[:, :n], key[:, n : 2 * n], key[:, 2 * n :]
        self.v_cmp, v_slc, v_win = value[:, :n], value[:, n : 2 * n], value[:, 2 * n :]
        compressed_key = self.compress(self.k_cmp, "compress_key")
        self.cmp_inputs = (
            query,
            self.rotate(compressed_key, self.cmp_positions),
            self.compress(self.v_cmp, "compress_value"),
        )
        self.cmp_out, self.blocks, *self.cmp_softmax = nsa_compress_attention(
            *self.cmp_inputs, self.scale, c.num_heads, *self.window, c.select_block_size,
            c.select_block_count, init_blocks=c.init_blocks, local_blocks=c.local_blocks,
            importance=c.importance, **self.causal)  # fmt: skip
        self.slc_inputs = (query, self.rotate(k_slc, self.positions), v_slc)
        self.slc_out, *self.slc_softmax = nsa_selected_attention(
            *self.slc_inputs, self.blocks, self.scale, c.num_heads, c.select_block_size,
            c.select_block_count, actual_seq_kvlen=self.ends, **self.causal)  # fmt: skip
        self.win_inputs = (query, self.rotate(k_win, self.positions), v_win)
        self.win_out, *self.win_softmax = flash_attention_score(
            *self.win_inputs, c.num_heads, **self.flash
        )
        self.sigmoid, self.gate = self.gates()
        outputs = np.stack((self.cmp_out, self.slc_out, self.win_out), axis=1)
        return self.precision.sum(self.gate * outputs, axis=1)

    def attend_grad(self, dout):
        c = self.config
        outputs = np.stack((self.cmp_out, self.slc_out, self.win_out), axis=1)
        dgate = self.precision.sum(outputs * dout[:, None], axis=-1)  # [T, 3, N1]
        sigmoid, slope = self.sigmoid[..., 0], 1 if c.gating == "sigmoid" else 2
        dlogits = (dgate * slope * sigmoid * (1 - sigmoid)).reshape(len(dout), -1)
        dx = self.linear_grad(dlogits, self.x, "gates.linear")
        d_cmp, d_slc, d_win = (self.gate[:, b] * dout for b in range(3))

        dq_cmp, dk_cmp, dv_cmp = nsa_compress_attention_grad(
            *self.cmp_inputs, self.cmp_out, d_cmp, *self.cmp_softmax, self.scale, c.num_heads,
            *self.window, **self.causal)  # fmt: skip
        dk_cmp = self.rotate(dk_cmp, self.cmp_positions, inverse=True)
        dk_cmp = self.compress_grad(dk_cmp, self.k_cmp, "compress_key")
        dv_cmp = self.compress_grad(dv_cmp, self.v_cmp, "compress_value")
        dq_slc, dk_slc, dv_slc = nsa_selected_attention_grad(
            *self.slc_inputs, self.slc_out, d_slc, *self.slc_softmax, self.blocks, self.scale,
            c.num_heads, c.select_block_size, c.select_block_count, actual_seq_kvlen=self.ends,
            **self.causal)  # fmt: skip
        win = flash_attention_score_grad(
            *self.win_inputs, d_win, c.num_heads, *self.win_softmax, self.win_out, **self.flash
        )
        dk_slc, dk_win = (self.rotate(d, self.positions, inverse=True) for d in (dk_slc, win.dk))
        dkey = np.concatenate((dk_cmp, dk_slc, dk_win), axis=1)
        dvalue = np.concatenate((dv_cmp, dv_slc, win.dv), axis=1)
        return dq_cmp + dq_slc + win.dq, dkey, dvalue, dx


def native_sparse_attention(x, parameters, config, *, actual_seq_len, precision=FLOAT64):
    """o = (g_cmp * Attn(q, K_cmp, V_cmp) + g_slc * Attn(q, K_slc, V_slc)
            + g_win * Attn(q, K_win, V_win)) Wo

    x [T, hidden]; see layer.py for `parameters`. Gates are sigmoid(x Wg), one per head and branch;
    with gating "residual" twice that, less 1 for all branches but the selected one. With qk_norm
    queries and keys are divided by the root mean square of their heads first.
    K_cmp = RoPE(sum_j w[j] * (k[c s + j] + position[j])), at position c*s of the document; queries,
    K_slc and K_win are rotated at their own positions. Paper eq. (5) to (12).
    """
    return run(_Sparse(parameters, config, actual_seq_len, precision), x)


def native_sparse_attention_grad(
    output_grad, x, parameters, config, *, actual_seq_len, precision=FLOAT64
):
    """(gradient of x, {name: gradient of the parameter}); the choice of blocks has no gradient."""
    return run_grad(_Sparse(parameters, config, actual_seq_len, precision), output_grad, x)
