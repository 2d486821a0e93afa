"""Small attention layers: configurations as plain namespaces and drawn parameters."""

from types import SimpleNamespace

SMALL = {
    "hidden_size": 12,
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 8,
    "value_head_dim": 6,
    "compress_block_size": 8,
    "compress_stride": 4,
    "select_block_size": 8,
    "select_block_count": 3,
    "init_blocks": 1,
    "local_blocks": 1,
    "window_size": 10,
    "importance": "overlap",
    "rope_theta": 100.0,
    "rope_pairs": "half",
    "rope_scaling": None,
    "qk_norm": False,
    "qk_norm_eps": 1e-6,
    "shared_kv": False,
    "gating": "sigmoid",
    "has_bias": False,
    "dropout": 0.0,
    "param_dtype": "float32",
}


def small(**changes):
    """The fields of a configuration, as the reference takes them."""
    return SimpleNamespace(**{**SMALL, **changes})


def parameter_shapes(config, dense=False):
    """Name to shape of every parameter, in the order of the Cell."""
    c = config
    sets = 1 if dense or c.shared_kv else 3
    heads = sets * c.num_kv_heads
    linear = {
        "query": (c.num_heads * c.head_dim, c.hidden_size),
        "key_value": (heads * (c.head_dim + c.value_head_dim), c.hidden_size),
        "output": (c.hidden_size, c.num_heads * c.value_head_dim),
    }
    shapes = {}
    if not dense:
        linear["gates.linear"] = (3 * c.num_heads, c.hidden_size)
        window = (c.compress_block_size, c.num_kv_heads)
        for name, dim in (("compress_key", c.head_dim), ("compress_value", c.value_head_dim)):
            shapes[f"{name}.weight"] = window
            shapes[f"{name}.position"] = (*window, dim)
    if c.qk_norm:
        shapes["query_norm.weight"] = (c.head_dim,)
        shapes["key_norm.weight"] = (c.head_dim,) if sets == 1 else (sets, c.head_dim)
    for name, shape in linear.items():
        shapes[f"{name}.weight"] = shape
        if c.has_bias:
            shapes[f"{name}.bias"] = shape[:1]
    return shapes


def draw_parameters(config, rng, dense=False):
    """Parameters of which none is negligible in the output."""
    parameters = {}
    for name, shape in parameter_shapes(config, dense).items():
        p = rng.standard_normal(shape)
        if name.startswith("compress"):
            p *= 0.5
        elif "norm" in name:
            p = 1 + 0.3 * p
        elif len(shape) == 2:
            p *= shape[1] ** -0.5
        parameters[name] = p
    return parameters
