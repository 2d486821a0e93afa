"""What the two attention layers share: linear maps, rotation, the order of a pass.

`parameters` maps the names of the Cell's parameters to arrays, `config` has the fields of
`mindspore_nsa.nn.NSAConfig`, and x is packed, [T, hidden].
"""

import numpy as np

from .segments import lengths


def positions(actual_seq_len):
    """Position of every token in its segment, counted from 0."""
    return np.concatenate([np.arange(n) for n in lengths(actual_seq_len)])


def rotate(x, at, theta, precision, inverse=False):
    """Turns the pair (x[..., i], x[..., i + D/2]) of token t by the angle at[t] * theta^(-2i/D).

    x [T, N, D]. The gradient of a rotation is the inverse rotation.
    """
    half = x.shape[-1] // 2
    angles = at[:, None] * float(theta) ** (-np.arange(half) / half)
    cos, sin = (precision.array(f(angles))[:, None] for f in (np.cos, np.sin))
    sin = -sin if inverse else sin
    a, b = x[..., :half], x[..., half:]
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)


class Layer:
    """One pass through a layer, forward and then backward; a subclass is one kind of attention."""

    branches = 1

    def __init__(self, parameters, config, actual_seq_len, precision):
        self.config, self.ends, self.precision = config, list(actual_seq_len), precision
        self.parameters = {name: precision.array(p) for name, p in parameters.items()}
        self.grads = {}
        self.scale = config.head_dim**-0.5
        self.positions = positions(self.ends)

    def linear(self, x, name):
        """x W^T + bias."""
        y = self.precision.matmul(x, self.parameters[f"{name}.weight"].T)
        if self.config.has_bias:
            y = y + self.parameters[f"{name}.bias"]
        return y

    def linear_grad(self, dy, x, name):
        """dx = dy W, dW = dy^T x, dbias = sum of dy over the tokens."""
        self.grads[f"{name}.weight"] = self.precision.matmul(dy.T, x)
        if self.config.has_bias:
            self.grads[f"{name}.bias"] = self.precision.sum(dy, axis=0)
        return self.precision.matmul(dy, self.parameters[f"{name}.weight"])

    def rotate(self, x, at, inverse=False):
        """Rotary embedding of x [T, N, D]."""
        return rotate(x, at, self.config.rope_theta, self.precision, inverse)

    def forward(self, x):
        """The layer's output [T, hidden]."""
        c, tokens = self.config, len(x)
        self.x = self.precision.array(x)
        query = self.linear(self.x, "query").reshape(tokens, c.num_heads, c.head_dim)
        # The keys of all branches, then their values.
        both = self.linear(self.x, "key_value")
        heads = self.branches * c.num_kv_heads
        key = both[:, : heads * c.head_dim].reshape(tokens, heads, c.head_dim)
        value = both[:, heads * c.head_dim :].reshape(tokens, heads, c.value_head_dim)
        self.mixed = self.attend(self.rotate(query, self.positions), key, value)
        return self.linear(self.mixed.reshape(tokens, -1), "output")

    def backward(self, dout):
        """The gradient of x; those of the parameters are in `grads`."""
        tokens = len(self.x)
        dout = self.precision.array(dout)
        mixed = self.mixed.reshape(tokens, -1)
        dmixed = self.linear_grad(dout, mixed, "output").reshape(self.mixed.shape)
        dquery, dkey, dvalue, dx = self.attend_grad(dmixed)
        dquery = self.rotate(dquery, self.positions, inverse=True)
        dboth = np.concatenate((dkey.reshape(tokens, -1), dvalue.reshape(tokens, -1)), axis=1)
        dx = dx + self.linear_grad(dquery.reshape(tokens, -1), self.x, "query")
        return dx + self.linear_grad(dboth, self.x, "key_value")

    def attend(self, query, key, value):
        """Attention of rotated queries over keys that are not rotated yet: [T, N1, Dv]."""
        raise NotImplementedError

    def attend_grad(self, dout):
        """Gradients of query, key and value, and of x where the attention reads it itself."""
        raise NotImplementedError


def run(layer, x):
    """The layer's output."""
    return layer.forward(x)


def run_grad(layer, output_grad, x):
    """(gradient of x, {name: gradient of the parameter})."""
    layer.forward(x)
    dx = layer.backward(output_grad)
    return dx, {name: layer.grads[name] for name in layer.parameters}
