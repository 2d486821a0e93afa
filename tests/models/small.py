"""A small layer of every architecture and kind, with random weights."""

import numpy as np
from mindspore import Tensor

from mindspore_nsa import models
from mindspore_nsa.models import _cases

HIDDEN = 32
_LATENT = dict(
    hidden_size=HIDDEN,
    num_attention_heads=4,
    q_lora_rank=16,
    kv_lora_rank=16,
    qk_nope_head_dim=8,
    qk_rope_head_dim=8,
    v_head_dim=8,
    index_n_heads=8,
    index_head_dim=16,
    index_topk=4,
    rope_parameters=dict(
        rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=8,
        mscale_all_dim=1.0,
    ),
)  # fmt: skip
_HEADS = dict(hidden_size=HIDDEN, num_attention_heads=4, num_key_value_heads=2, head_dim=16)
_V4 = dict(
    hidden_size=HIDDEN,
    num_attention_heads=4,
    head_dim=24,
    q_lora_rank=16,
    sliding_window=5,
    o_groups=2,
    o_lora_rank=8,
    index_n_heads=8,
    index_head_dim=16,
    index_topk=2,
    qk_rope_head_dim=8,
    compress_rates=dict(compressed_sparse_attention=3, heavily_compressed_attention=4),
    layer_types=["sliding_attention", "compressed_sparse_attention",
                 "heavily_compressed_attention"],
)  # fmt: skip
_POOLS = {**_LATENT, "qk_rope_head_dim": 0, "index_topk": 6, "index_kpool": 3}
# Name: class, configuration, number of the layer.
KINDS = {
    "deepseek_v32": (models.DeepseekV32Attention, _LATENT, 0),
    "glm_moe_dsa": (models.GlmMoeDsaAttention, _LATENT, 0),
    "minimax_m3": (
        models.MiniMaxM3VLAttention,
        dict(
            **_HEADS,
            index_n_heads=2,
            index_head_dim=16,
            index_block_size=3,
            index_topk_blocks=2,
            layer_types=["minimax_m3_sparse", "full_attention"],
        ),
        0,
    ),
    "minimax_m3_full": (models.MiniMaxM3VLAttention, dict(**_HEADS), 0),
    "qwen4_exp": (
        models.Qwen4ExpTextAttention,
        dict(
            **_HEADS,
            indexer_n_heads=8,
            indexer_kv_heads=1,
            indexer_head_dim=16,
            indexer_budget=6,
            indexer_compress_ratio=3,
        ),
        0,
    ),
    "glm5_next": (models.Glm5NextTextAttention, _POOLS, 0),
    "v4_sliding": (models.DeepseekV4Attention, _V4, 0),
    "v4_csa": (models.DeepseekV4Attention, _V4, 1),
    "v4_hca": (models.DeepseekV4Attention, _V4, 2),
}
# Kinds that pick something.
PICKING = tuple(kind for kind in KINDS if kind not in ("minimax_m3_full", "v4_sliding", "v4_hca"))


def layer_of(kind, seed=0, **fields):
    """A layer with weights as the comparison draws them."""
    made, config, layer_idx = KINDS[kind]
    layer = made({**config, **fields}, layer_idx)
    architecture = (
        "qwen4_exp_text" if kind in ("minimax_m3", "minimax_m3_full", "qwen4_exp") else ""
    )
    case = _cases.Case(architecture, seed, {}, layer_idx, ())
    shapes = {p.name: p.shape for p in layer.get_parameters()}
    for name, values in _cases.weights(case, shapes).items():
        layer.parameters_dict()[name].set_data(Tensor(values))
    return layer


def text_of(rows, length, seed=0):
    """x [rows, length, hidden], float32."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, length, HIDDEN)).astype(np.float32)


def error(got, want):
    """Largest difference relative to the largest value."""
    return np.abs(got - want).max() / np.abs(want).max()
