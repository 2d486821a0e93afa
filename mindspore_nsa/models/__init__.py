"""The attention layers of models that ship sparse attention, as `mindspore.nn.Cell`."""

from ._cache import LayerCache
from ._weights import attention_parameters
from .deepseek_v4 import DeepseekV4Attention
from .deepseek_v32 import DeepseekV32Attention
from .glm5_next import Glm5NextTextAttention
from .glm_moe_dsa import GlmMoeDsaAttention
from .minimax_m3_vl import MiniMaxM3VLAttention
from .qwen4_exp import Qwen4ExpTextAttention

__all__ = [
    "DeepseekV32Attention",
    "DeepseekV4Attention",
    "Glm5NextTextAttention",
    "GlmMoeDsaAttention",
    "LayerCache",
    "MiniMaxM3VLAttention",
    "Qwen4ExpTextAttention",
    "attention_parameters",
]
