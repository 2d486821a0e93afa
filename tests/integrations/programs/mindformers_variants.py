"""The layers of `dsa` and `dsv4_hybrid` on a CPU, beside those of mindspore_nsa.models."""

import sys
from types import SimpleNamespace

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, mint, nn, ops

from mindspore_nsa.integrations import mindformers as adapter
from mindspore_nsa.models import DeepseekV4Attention, DeepseekV32Attention

REPLACED = ((mint, "split"), (ops, "lightning_indexer"), (Tensor, "mul_"), (Tensor, "detach"))
BEFORE = [getattr(*pair, None) for pair in REPLACED]
adapter.serve_cpu()
adapter.serve_cpu()

from mindformers.parallel_core.transformer_config import MLATransformerConfig  # noqa: E402
from mindformers.parallel_core.utils.spec_utils import build_module  # noqa: E402
from mindformers.pynative.base_models.common.embeddings.rotary_pos_embedding import (  # noqa: E402
    RotaryEmbedding,
)
from mindformers.pynative.base_models.gpt import (  # noqa: E402
    experimental_attention_variant_module_specs as specs,
)
from mindformers.pynative.transformers.experimental_attention_variant import (  # noqa: E402
    csa,
    dsa_indexer,
    dsa_indexer_loss,
    indexer,
)

HIDDEN, QUERY, RANK, PICKS = 64, 32, 512, 9
COMMON = {
    **{"num_layers": 3, "hidden_size": HIDDEN, "num_attention_heads": 4, "vocab_size": 128},
    **{"ffn_hidden_size": 128, "seq_length": 64, "hidden_dropout": 0.0, "attention_dropout": 0.0},
    **{"normalization": "RMSNorm", "add_bias_linear": False, "q_lora_rank": QUERY},
    **{"kv_lora_rank": RANK, "qk_head_dim": 32, "qk_pos_emb_head_dim": 64, "qk_layernorm": True},
    **{"layernorm_epsilon": 1e-6, "rope_type": "rope", "input_layout": "BSND"},
    **{"rotary_base": 10000, "rotary_scaling_factor": 1.0, "dsa_indexer_head_dim": 128},
    **{"compute_dtype": "float32", "params_dtype": "float32", "rotary_dtype": "float32"},
    **{"layernorm_compute_dtype": "float32", "softmax_compute_dtype": "float32"},
    **{"dsa_indexer_loss_coeff": 1.0, "dsa_indexer_use_sparse_loss": True},
}
DSA = {
    **{"experimental_attention_variant": "dsa", "v_head_dim": 32, "dsa_indexer_n_heads": 64},
    "dsa_indexer_topk": PICKS,
}
V4 = {
    **{"experimental_attention_variant": "dsv4_hybrid", "v_head_dim": 96, "o_groups": 2},
    **{"csa_compress_ratios": [0, 4, 128], "csa_window_size": 128, "dsa_indexer_topk": 24},
    **{"csa_compress_rotary_base": 160000.0, "dsa_indexer_n_heads": 8, "o_lora_rank": 16},
}
OURS = {
    **{"hidden_size": HIDDEN, "num_attention_heads": 4, "q_lora_rank": QUERY},
    **{"qk_rope_head_dim": 64, "index_head_dim": 128, "rope_theta": 10000.0},
}
OURS_DSA = {
    **{"kv_lora_rank": RANK, "qk_nope_head_dim": 32, "v_head_dim": 32, "index_n_heads": 64},
    "index_topk": PICKS,
}
OURS_V4 = {
    **{"head_dim": 96, "sliding_window": 128, "o_groups": 2, "o_lora_rank": 16},
    **{"index_n_heads": 8, "index_topk": 24, "compress_rope_theta": 160000.0},
    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128},
    "layer_types": ["sliding_attention", "compressed_sparse_attention",
                    "heavily_compressed_attention"],
}  # fmt: skip
INDEXER = "core_attention.indexer"
NAMES = {
    **{"q_a_layernorm.weight": "q_layernorm.weight", "q_b_proj.weight": "linear_qb.weight"},
    **{"kv_a_layernorm.weight": "k_layernorm.weight", "kv_b_proj.weight": "linear_kvb.weight"},
    **{
        "o_proj.weight": "linear_proj.weight",
        "indexer.wq_b.weight": f"{INDEXER}.linear_wq_b.weight",
    },
    **{"indexer.wk.weight": f"{INDEXER}.linear_wk.weight"},
    **{"indexer.k_norm.weight": f"{INDEXER}.k_norm.gamma"},
    **{"indexer.k_norm.bias": f"{INDEXER}.k_norm.beta"},
    **{"indexer.weights_proj.weight": f"{INDEXER}.linear_weights_proj.weight"},
}
NAMES_V4 = {
    **{"q_a_proj.weight": "linear_q_down_proj.weight", "q_a_norm.weight": "q_layernorm.weight"},
    **{"q_b_proj.weight": "linear_q_up_proj.weight", "kv_proj.weight": "linear_kv_proj.weight"},
    **{"kv_norm.weight": "kv_layernorm.weight", "sinks": "core_attention.attn_sink"},
    **{"o_a_proj.weight": "linear_o_group_proj", "o_b_proj.weight": "linear_proj.weight"},
    "compressor.indexer.q_b_proj.weight": f"{INDEXER}.linear_wq_b.weight",
    "compressor.indexer.scorer.weights_proj.weight": f"{INDEXER}.linear_weights_proj.weight",
    **{
        f"{ours}.{name}": f"{its}.{other}"
        for ours, its in (
            ("compressor", "core_attention.compressor"),
            ("compressor.indexer", f"{INDEXER}.compressor"),
        )
        for name, other in (
            *(("kv_proj.weight", "linear_wkv.weight"), ("gate_proj.weight", "linear_wgate.weight")),
            *(("position_bias", "ape"), ("kv_norm.weight", "norm.weight")),
        )
    },
}
WIDE = SimpleNamespace(bfloat16=ms.float32, float32=ms.float32, int32=ms.int32)


def arrays(layer, values=None):
    values = layer.get_parameters() if values is None else values
    return {p.name: v.asnumpy() for p, v in zip(layer.get_parameters(), values, strict=False)}


def by_our_names(found):
    """Weights or gradients of a layer of MindFormers by transformers' names."""
    if "linear_qkv.weight" not in found:
        return {ours: found[its] for ours, its in NAMES_V4.items() if its in found}
    joint = found["linear_qkv.weight"]
    named = {"q_a_proj.weight": joint[:QUERY], "kv_a_proj_with_mqa.weight": joint[QUERY:]}
    return {**named, **{ours: found[its] for ours, its in NAMES.items()}}


def pair(number, **changes):
    """A layer of MindFormers, and ours with its weights."""
    variant = changes.pop("variant", DSA)
    config = MLATransformerConfig(**{**COMMON, **variant, **changes})
    spec = specs.get_attention_variant_module_spec(config.experimental_attention_variant, True)
    layer, rng = build_module(spec, config=config, layer_number=number), np.random.default_rng(0)
    for name, p in layer.parameters_and_names():
        norm = "norm" in name or "rms" in name
        drawn = rng.standard_normal(p.shape) * (0.1 if norm else p.shape[-1] ** -0.5)
        drawn += norm and "beta" not in name
        p.set_data(Tensor(np.ones(p.shape) if "rms" in name else drawn, ms.float32))
    kind, sizes = (
        (DeepseekV32Attention, OURS_DSA) if variant is DSA else (DeepseekV4Attention, OURS_V4)
    )
    ours, weights = kind({**OURS, **sizes}, number), by_our_names(arrays(layer))
    tensors = {name: Parameter(Tensor(values), name=name) for name, values in weights.items()}
    assert ms.load_param_into_net(ours, tensors, strict_load=True) == ([], [])
    return layer.set_train(), ours


def inputs(length):
    return np.random.default_rng(1).standard_normal((2, 2, length, HIDDEN)).astype(np.float32)


def error(got, want):
    return float(np.abs(got - want).max() / np.abs(want).max())


def compare(name, layer, ours, length, stage, **arguments):
    """Largest errors of the output, and of the gradients of x and of every parameter."""
    x, weight = (a.swapaxes(0, 1) for a in inputs(length))
    picks = []
    if isinstance(layer, specs.DSASelfAttention):
        # Operands of the indexer are rounded, so near ties may fall otherwise: its picks are given.
        served = ops.lightning_indexer
        ops.lightning_indexer = lambda *a, **k: picks.append(served(*a, **k)) or picks[-1]
        layer(Tensor(x), **arguments)
        ops.lightning_indexer = served
    options = {"topk_indices": picks[0][0][:, :, 0]} if picks else {}

    def its(x):
        out = layer(x, **arguments)
        out = out[0] if isinstance(out, tuple) else out
        return (out * Tensor(weight)).sum(), out

    def mine(x):
        out, loss = ours(x, **options), 0.0
        if stage is not None:
            out, loss = ours(x, stage=stage, **options)
        return (out * Tensor(weight.swapaxes(0, 1).copy())).sum() + loss, out

    found = []
    for cell, function, given in ((layer, its, x), (ours, mine, x.swapaxes(0, 1).copy())):
        parameters = ParameterTuple(cell.trainable_params())
        step = ms.value_and_grad(function, 0, parameters, has_aux=True)
        (_, out), (of_x, of_parameters) = step(Tensor(given))
        named = {p.name: g.asnumpy() for p, g in zip(parameters, of_parameters, strict=True)}
        found.append((out.asnumpy(), of_x.asnumpy(), named))
    (out, of_x, named), (our_out, our_x, our_named) = found
    named = by_our_names(named)
    assert set(named) == set(our_named)
    worst = max(error(named[n], our_named[n]) for n in named)
    worst = max(worst, error(of_x, our_x.swapaxes(0, 1)))
    print(f"result: {name} {error(out, our_out.swapaxes(0, 1)):.1e} {worst:.1e}")


def check_dsa():
    rope = {"rotary_pos_emb": RotaryEmbedding(64, rotary_base=10000)(24)[0]}
    layer, ours = pair(0)
    dsa_indexer.mstype = dsa_indexer_loss.ms = WIDE
    compare("dsa", layer, ours, 24, "sparse", **rope)
    dense, ours = pair(0, dsa_indexer_use_sparse_loss=False)
    compare("warm-up", dense, ours, 24, "dense", attention_mask=future(24), **rope)
    dsa_indexer.mstype = dsa_indexer_loss.ms = ms
    optimizer, x = nn.Adam(layer.trainable_params(), 1e-3), Tensor(inputs(24)[0].swapaxes(0, 1))
    step = ms.value_and_grad(lambda: (layer(x, **rope)[0] ** 2).mean(), None, optimizer.parameters)
    losses = []
    for _ in range(4):
        loss, gradients = step()
        optimizer(gradients)
        losses.append(float(loss))
    print("result: trains", *(f"{loss:.4f}" for loss in losses))
    # YaRN is off: 1 / sqrt(96), or what the default factor of 40 makes of it.
    layer, _ = pair(0, rotary_scaling_factor=40.0)
    print("result: scale", f"{layer.core_attention.softmax_scale:.4f}")


def future(length):
    return Tensor(np.triu(np.ones((length, length), np.uint8), 1))


def check_v4():
    kinds = ("sliding", "CSA", "HCA")
    for fused in (True, False):
        for number, kind in enumerate(kinds):
            layer, ours = pair(number, variant=V4, apply_dsa_kernel_fusion=fused)
            csa.mstype = WIDE if fused else ms
            stage = {(1, True): "sparse", (1, False): "sparse_picks"}.get((number, fused))
            compare(f"{kind} {'fused' if fused else 'unfused'}", layer, ours, 144, stage)
            csa.mstype = ms
    x = inputs(140)[0][:1]
    layer, ours = pair(1, variant=V4, apply_dsa_kernel_fusion=True)
    served, want = indexer.npu_lightning_indexer, ours(Tensor(x)).asnumpy().swapaxes(0, 1)

    def right(query, *given, **options):
        residual = Tensor([query.shape[1] % 4], ms.int32)
        return served(query, *given, **{**options, "cmp_residual_k": residual})

    errors = []
    for function in (served, right):
        indexer.npu_lightning_indexer = function
        errors.append(error(layer(Tensor(x.swapaxes(0, 1).copy())).asnumpy(), want))
    print("result: residual", *(f"{e:.1e}" for e in errors))


def check_split():
    """Gradients of a split and a concatenation by MindSpore's own, and by what is served."""
    x, weight = (Tensor(np.arange(8, dtype=np.float32)) for _ in range(2))
    for split in (BEFORE[0], mint.split):
        gradient = ms.grad(lambda x, f=split: (ops.concat(f(x, 4)) * weight).sum())(x)
        print("result: split", *gradient.asnumpy().astype(int))


ms.set_context(mode=ms.PYNATIVE_MODE)
# Threads that wait for one another would spin, which takes most of the processor time.
ms.runtime.launch_blocking()
check_split()
check_dsa()
check_v4()
adapter.stop_serving_cpu()
assert [getattr(*pair, None) for pair in REPLACED] == BEFORE
left = [name for name in sys.modules if name.startswith(("hyper_parallel", "mindformers.pynative"))]
print("result: stopped", *left)
adapter.stop_serving_cpu()
from mindformers import pynative  # noqa: E402, F401

sys.modules["mindformers.pynative.transformers"] = pynative
try:
    adapter.serve_cpu()
except RuntimeError as raised:
    print("result:", raised)
