"""The two attention layers share linear maps, rotation and the order of a pass.

`parameters` maps the names of the Cell's parameters to arrays, `config` has the fields of
`mindspore_nsa.nn.NSAConfig`, and x is packed, [T, hidden].
"""

import numpy as np

from .segments import lengths


def positions(actual_seq_len):
    """Position of every token in its segment, counted from 0."""
    return np.concatenate([np.arange(n) for n in lengths(actual_seq_len)])


def frequencies(dim, theta, scaling=None):
    """theta^(-2i/D) for the pairs i < D/2 of a head, slower where the scaling says so.

    Linear: all are divided by the factor. YaRN (arXiv 2309.00071): pair i makes
    r = L theta^(-2i/D) / (2 pi) turns in the L tokens that a model was trained with. Those of more
    than beta_fast turns stay, those of fewer than beta_slow are divided, between them the part
    that is divided grows in proportion to i.
    """
    pairs = np.arange(dim // 2)
    usual = float(theta) ** (-2 * pairs / dim)
    if scaling is None:
        return usual
    if scaling.rope_type == "linear":
        return usual / scaling.factor
    # The pair, no whole number, that makes so many turns.
    length = scaling.original_max_position_embeddings
    low, high = (
        dim / 2 * np.log(length / (2 * np.pi * turns)) / np.log(float(theta))
        for turns in (scaling.beta_fast, scaling.beta_slow)
    )
    if scaling.truncate:
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    high = high + 0.001 if high == low else high
    divided = np.clip((pairs - low) / (high - low), 0, 1)
    return usual * (1 - divided) + usual / scaling.factor * divided


def stretch(scaling):
    """Return YaRN's factor of rotated queries and keys."""
    if scaling is None or scaling.rope_type == "linear":
        return 1.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    if scaling.mscale is None:
        return 0.1 * np.log(scaling.factor) + 1
    of_queries, of_all = (
        0.1 * m * np.log(scaling.factor) + 1 for m in (scaling.mscale, scaling.mscale_all_dim)
    )
    return of_queries / of_all


def rotate(x, at, config, precision, inverse=False):
    """Turns pair i of token t by the angle at[t] * frequency[i].

    x [T, N, D]. A pair is (x[i], x[i + D/2]), or with `interleaved` (x[2i], x[2i + 1]). The
    gradient of a rotation is the inverse rotation.
    """
    dim = x.shape[-1]
    angles = at[:, None] * frequencies(dim, config.rope_theta, config.rope_scaling)
    by = stretch(config.rope_scaling)
    cos, sin = (precision.array(by * f(angles))[:, None] for f in (np.cos, np.sin))
    sin = -sin if inverse else sin
    pairs = np.arange(dim).reshape(2, -1)
    if config.rope_pairs == "interleaved":
        pairs = np.arange(dim).reshape(-1, 2).T
    first, second = pairs
    a, b = x[..., first], x[..., second]
    out = np.empty(x.shape, a.dtype)
    out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
    return out


class Layer:
    """One pass through a layer, forward and then backward; a subclass is one kind of attention."""

    branches = 1

    def __init__(self, parameters, config, actual_seq_len, precision):
        self.config, self.ends, self.precision = config, list(actual_seq_len), precision
        self.parameters = {name: precision.array(p) for name, p in parameters.items()}
        self.grads = {}
        self.scale = config.head_dim**-0.5
        self.sets = 1 if config.shared_kv else self.branches
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
        return rotate(x, at, self.config, self.precision, inverse)

    def norm(self, x, name, sets=1):
        """x / sqrt(mean(x^2) + eps) * weight for every head of x [T, sets * N, D]."""
        if not self.config.qk_norm:
            return x
        weight = self.parameters[f"{name}.weight"].reshape(sets, 1, -1)
        heads = x.reshape(len(x), sets, -1, x.shape[-1])
        square = self.precision.sum(heads * heads, axis=-1)[..., None] / x.shape[-1]
        root = 1 / np.sqrt(square + self.precision.real(self.config.qk_norm_eps))
        self.normed[name] = heads, root, weight
        return (heads * root * weight).reshape(x.shape)

    def norm_grad(self, dy, name):
        """dx = root w dy - root^3 x mean(x w dy), dweight = sum of dy x root."""
        if not self.config.qk_norm:
            return dy
        heads, root, weight = self.normed[name]
        dheads = dy.reshape(heads.shape)
        rows = dheads * heads * root
        dweight = self.precision.sum(self.precision.sum(rows, axis=2), axis=0)
        self.grads[f"{name}.weight"] = dweight.reshape(self.parameters[f"{name}.weight"].shape)
        scaled = dheads * weight
        mean = self.precision.sum(scaled * heads, axis=-1)[..., None] / heads.shape[-1]
        return (root * scaled - root**3 * heads * mean).reshape(dy.shape)

    def forward(self, x):
        """The layer's output [T, hidden]."""
        c, tokens = self.config, len(x)
        self.x, self.normed = self.precision.array(x), {}
        query = self.linear(self.x, "query").reshape(tokens, c.num_heads, c.head_dim)
        # The keys of all branches, then their values.
        both = self.linear(self.x, "key_value")
        heads = self.sets * c.num_kv_heads
        key = both[:, : heads * c.head_dim].reshape(tokens, heads, c.head_dim)
        value = both[:, heads * c.head_dim :].reshape(tokens, heads, c.value_head_dim)
        query, key = self.norm(query, "query_norm"), self.norm(key, "key_norm", self.sets)
        # Branches without sets of their own share the one that there is.
        key, value = (np.tile(p, (1, self.branches // self.sets, 1)) for p in (key, value))
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
        heads = self.sets * self.config.num_kv_heads
        dkey, dvalue = (
            self.precision.sum(d.reshape(tokens, -1, heads, d.shape[-1]), axis=1)
            for d in (dkey, dvalue)
        )
        dquery, dkey = self.norm_grad(dquery, "query_norm"), self.norm_grad(dkey, "key_norm")
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
