"""Random tiny configurations of every architecture, with lengths at their edges."""

from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """A layer and a text to compare it on.

    Attributes:
        architecture: `model_type` in transformers.
        seed: Of the weights and the text.
        config: Fields of the configuration.
        layer_idx: Number of the layer.
        shape: (rows, tokens of a row).
    """

    architecture: str
    seed: int
    config: dict
    layer_idx: int
    shape: tuple


def _choose(rng, values):
    return values[int(rng.integers(len(values)))]


def _edges(rng, *sizes):
    """1, or a size with at most one token more or less, or a few times that."""
    around = [1, *(size + by for size in sizes for by in (-1, 0, 1)), 3 * max(sizes) + 1]
    return max(1, _choose(rng, around))


def _yarn(rng, theta=10000.0, **more):
    scaled = {"rope_type": "yarn", "rope_theta": theta, "factor": 4.0, "beta_fast": 4.0,
              "original_max_position_embeddings": 16, **more}  # fmt: skip
    return scaled if rng.integers(2) else {"rope_type": "default", "rope_theta": theta}


def _latent(rng):
    mscale = _choose(rng, [{}, {"mscale": 1.0, "mscale_all_dim": 0.7}, {"mscale_all_dim": 1.0}])
    return {
        "hidden_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "q_lora_rank": 24,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 12,
        "qk_rope_head_dim": 8,
        "v_head_dim": _choose(rng, [12, 20]),
        "index_n_heads": _choose(rng, [12, 16, 24]),
        "index_head_dim": 16,
        "index_topk": 5,
        "attention_bias": bool(rng.integers(2)),
        "num_hidden_layers": 4,
        "max_position_embeddings": 64,
        "rope_parameters": _yarn(rng, **mscale),
    }


def _deepseek_v32(rng):
    return _latent(rng), int(rng.integers(4)), _edges(rng, 5)


def _glm_moe_dsa(rng):
    config = {**_latent(rng), "rms_norm_eps": 1e-5}
    pattern = _choose(rng, [{}, {"index_topk_pattern": "FSSF"}, {"index_topk_freq": 4}])
    return {**config, **pattern}, _choose(rng, [0, 3 if pattern == {} else 0]), _edges(rng, 5)


def _heads(rng):
    return {
        "hidden_size": 48,
        "num_attention_heads": 8,
        "num_key_value_heads": _choose(rng, [2, 4]),
        "head_dim": 16,
        "num_hidden_layers": 2,
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5,
    }


def _minimax_m3_vl(rng):
    config = _heads(rng)
    part = _choose(rng, [1.0, 0.5])
    config["rope_parameters"] = _yarn(rng, 5000000.0, partial_rotary_factor=part)
    config["rope_parameters"]["partial_rotary_factor"] = part
    sizes = {
        "index_n_heads": _choose(rng, [2, config["num_key_value_heads"]]),
        "index_head_dim": 16,
        "index_block_size": _choose(rng, [3, 4]),
        "index_topk_blocks": 3,
        "index_local_blocks": _choose(rng, [0, 1, 2]),
    }
    kinds = ["minimax_m3_sparse", "minimax_m3_sparse" if rng.integers(4) else "full_attention"]
    config = {**config, **sizes, "layer_types": kinds}
    return config, 1, _edges(rng, sizes["index_block_size"], 3 * sizes["index_block_size"])


def _qwen4_exp(rng):
    config, ratio = _heads(rng), _choose(rng, [2, 3, 4])
    part = _choose(rng, [1.0, 0.5])
    config["rope_parameters"] = {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": part,
        "mrope_section": [4, 2, 2] if part == 1.0 else [2, 1, 1],
    }
    sizes = {
        "attention_bias": bool(rng.integers(2)),
        "indexer_n_heads": _choose(rng, [8, 12]),
        "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
        "indexer_budget": 3 * ratio,
        "indexer_compress_ratio": ratio,
    }
    kinds = ["indexed_attention"] * 2
    return {**config, **sizes, "layer_types": kinds}, 1, _edges(rng, ratio, 3 * ratio)


def _glm5_next(rng):
    config, pool = _latent(rng), _choose(rng, [1, 2, 4])
    for unused in ("rope_parameters", "max_position_embeddings"):
        del config[unused]
    sizes = {
        "qk_rope_head_dim": 0,
        "index_topk": 3 * pool,
        "index_kpool": pool,
        "layer_types": ["indexed_attention"] * 4,
        "rms_norm_eps": 1e-5,
    }
    return {**config, **sizes}, int(rng.integers(4)), _edges(rng, pool, 3 * pool)


def _deepseek_v4(rng):
    kind = _choose(rng, ["sliding", "compressed_sparse", "compressed_sparse", "heavily_compressed"])
    csa, hca = _choose(rng, [2, 3, 4]), _choose(rng, [5, 6])
    config = {
        "hidden_size": 48,
        "num_attention_heads": 4,
        "num_hidden_layers": 1,
        "head_dim": 24,
        "q_lora_rank": 24,
        "sliding_window": _choose(rng, [1, 4, 7]),
        "o_groups": _choose(rng, [1, 2]),
        "o_lora_rank": 8,
        "index_n_heads": 16,
        "index_head_dim": 16,
        "index_topk": 3,
        "partial_rotary_factor": 1 / 3,
        "layer_types": [f"{kind}_attention"],
        "compress_rates": {
            "compressed_sparse_attention": csa,
            "heavily_compressed_attention": hca,
        },
        "max_position_embeddings": 64,
        "rope_parameters": _yarn(rng),
    }
    size = {"compressed_sparse": csa, "heavily_compressed": hca}.get(kind, 1)
    return config, 0, _edges(rng, config["sliding_window"], size, 3 * size)


_DRAWN = {
    "deepseek_v32": _deepseek_v32,
    "glm_moe_dsa": _glm_moe_dsa,
    "minimax_m3_vl_text": _minimax_m3_vl,
    "qwen4_exp_text": _qwen4_exp,
    "glm5_next_text": _glm5_next,
    "deepseek_v4": _deepseek_v4,
}
ARCHITECTURES = tuple(_DRAWN)


def draw(architecture, seed):
    """The case of a seed."""
    rng = np.random.default_rng([ARCHITECTURES.index(architecture), seed])
    config, layer_idx, length = _DRAWN[architecture](rng)
    return Case(architecture, seed, config, layer_idx, (2, length))


def weights(case, shapes):
    """Parameters by name, for what their shapes are by name.

    Products keep the size of what they multiply, so that no softmax is nearly flat or nearly one.
    """
    rng = np.random.default_rng([1, case.seed])
    found = {}
    for name, shape in sorted(shapes.items()):
        values = rng.standard_normal(shape)
        norm = "norm" in name and len(shape) == 1
        if norm and name.endswith("weight"):
            values = 1 + 0.3 * values if not _offset(case) else 0.3 * values
        elif len(shape) == 1:
            values = 0.3 * values
        elif not name.endswith(("ape", "bias")):
            values = values * 1.5 * shape[-1] ** -0.5
        found[name] = values.astype(np.float32)
    return found


def _offset(case):
    return case.architecture in ("minimax_m3_vl_text", "qwen4_exp_text")


def text(case):
    """The layer's input, and the gradient of its output."""
    rng = np.random.default_rng([2, case.seed])
    shape = (*case.shape, case.config["hidden_size"])
    return (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
