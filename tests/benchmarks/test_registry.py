"""The registry has every case that is asked for, once."""

import ast
from pathlib import Path

import numpy as np
import pytest

from benchmarks import registry
from benchmarks.layer_memory import operands
from mindspore_nsa import _native, testing
from mindspore_nsa.nn import NSAConfig
from mindspore_nsa.testing.case import OUTPUTS

# Not operators of their own: what a layer does between them, which nothing else calls.
OF_THE_LAYER = {
    *("NsaCacheStep", "NsaSplitHeads", "NsaSplitHeadsGrad"),
    *("NsaMixBranches", "NsaMixBranchesGrad", "NsaRound", "NsaLinear"),
    *("NsaProjection", "NsaProjectionInputGrad", "NsaProjectionWeightGrad"),
}
MEASURED = set(OUTPUTS) - {"NsaDropoutMask"} - OF_THE_LAYER


def test_benchmarks_do_not_need_the_tests():
    """Both need mindspore_nsa.testing, which needs neither."""
    folder = Path(registry.__file__).parent
    for path in (*folder.glob("*.py"), *Path(testing.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.split(".")[0] == "tests"], path


def test_names_are_unique():
    names = [case.name for case in registry.CASES]
    assert len(names) == len(set(names))


def test_operators_exist():
    of_the_layer = ("training", "branches", "latents", "layer", "layer memory", "other")
    operators = {case.operator for case in registry.CASES if case.kind not in of_the_layer}
    assert operators == MEASURED


def of(kind):
    return [case for case in registry.CASES if case.kind == kind]


def test_targets():
    found = {(c.operator, c.dtype): c for c in of("speed") if c.name.startswith(("flash", "sel"))}
    shares = {key: case.share for key, case in found.items() if case.share}
    assert shares == {
        ("FlashAttentionScore", "float32"): 0.95,
        ("FlashAttentionScoreGrad", "float32"): 0.95,
        ("FlashAttentionScore", "bfloat16"): 0.8,
        ("FlashAttentionScoreGrad", "bfloat16"): 0.75,
        ("NsaSelectedAttention", "float32"): 0.6,
        ("NsaSelectedAttentionGrad", "float32"): 0.45,
    }
    limits = {key: case.baseline_limit for key, case in found.items() if case.baseline_limit}
    assert limits == {
        ("FlashAttentionScore", "bfloat16"): 1.0,
        ("FlashAttentionScoreGrad", "float16"): 1.3,
    }
    shares = {c.name: c.share for c in of("speed") if c.name.startswith("compress")}
    assert shares == {
        "compress_attention_float32_forward": 0.5,
        "compress_attention_float32_backward": None,
        "compress_attention_bfloat16_forward": None,
        "compress_attention_bfloat16_backward": None,
        "compress_float32_forward": 0.6,
        "compress_float32_backward": 0.6,
    }


def test_branches_are_complete():
    found = {(c.tokens, c.dtype, c.direction): (c.speedup, c.share) for c in of("branches")}
    short = {"forward": 2.1, "both": 1.5}
    assert found == {
        (tokens, dtype, direction): (short[direction], None) if tokens == 8192 else (None, 0.85)
        for tokens in (8192, 32768, 65536)
        for dtype in ("float32", "bfloat16")
        for direction in short
    }


def test_latents_are_complete():
    found = {(c.name, c.speedup, c.share) for c in of("latents")}
    targets = {"decode": (6.0, None), "prefill": (None, 0.8), "training": (None, 0.8)}
    assert found == {
        (f"dsa_{step}_{dtype}", *target)
        for step, target in targets.items()
        for dtype in ("float32", "bfloat16")
    }


def test_products_of_latents():
    """At 32k the products allow 1.6 times dense prefill and 1.85 times a dense step of training."""
    (case,) = (c for c in of("latents") if c.name == "dsa_prefill_float32")
    for gradient, allowed in ((False, 1.6), (True, 1.85)):
        sparse, dense = case.sizes.flops(False, gradient)
        assert abs(dense / sparse / allowed - 1) < 0.05


def test_memory_and_overhead_are_complete():
    memory = {(c.operator, c.dtype, c.group, c.tokens) for c in of("memory")}
    assert memory == {
        (operator, dtype, group, 65536)
        for operator in ("FlashAttentionScore", "NsaSelectedAttention", "NsaCompressAttention")
        for dtype in ("float32", "bfloat16")
        for group in (1, 4)
    }
    overhead = {(c.operator, c.graph) for c in of("overhead")}
    assert overhead == {(operator, graph) for operator in MEASURED for graph in (False, True)}
    for case in of("overhead"):
        assert len(case.inputs) == len(_native.schema(case.operator)["inputs"]), case.name


def test_layer_memory_is_complete():
    assert {(c.tokens, c.dtype) for c in of("layer memory")} == {
        (32768, "float32"),
        (32768, "bfloat16"),
    }


def test_layer_memory_counts_what_the_step_holds():
    config = NSAConfig(32, 4, 2, 16, value_head_dim=8, select_block_count=5)
    weights = [np.zeros((3, 4), np.float32)]
    found = operands(config, 100, "bfloat16", weights)
    assert found == {
        "input, output and their gradients": 4 * 100 * 32 * 2,
        "parameters and their gradients": 2 * 12 * 4,
        "queries of the branches": 3 * 100 * 4 * 16 * 2,
        "keys and values": 3 * 100 * 2 * (16 + 8) * 2,
        "outputs of the branches": 3 * 100 * 4 * 8 * 2,
        "their maxima and sums": 3 * 2 * 100 * 4 * 8 * 4,
        "the branches' sum": 100 * 4 * 8 * 2,
        "gates": 100 * 3 * 4 * 4,
        "indices": 100 * 2 * 5 * 4,
    }
    wide = operands(config, 100, "float32", weights)
    same = {"parameters and their gradients", "their maxima and sums", "gates", "indices"}
    assert all(wide[name] == found[name] * (1 if name in same else 2) for name in found)


def test_layer_is_complete():
    layers = [c for c in of("layer") if c.name.startswith("layer_")]
    assert {(c.tokens, c.dtype, c.direction) for c in layers} == {
        (tokens, dtype, direction)
        for tokens in (8192, 32768)
        for dtype in ("float32", "bfloat16")
        for direction in ("forward", "both")
    }
    assert [case.direction for case in of("other")] == ["forward", "both"]


def test_training_is_complete():
    assert [case.tokens for case in of("training")] == [2048, 4096, 8192, 32768]


def test_decoding_is_complete():
    found = {c.name: (c.tokens, c.dtype, c.batch) for c in of("decode") if c.against_dense}
    assert found == {
        f"decode_{dtype}_{tokens // 1024}k{'_batch8' if batch == 8 else ''}": (tokens, dtype, batch)
        for tokens in (4096, 16384, 65536)
        for dtype in ("bfloat16", "float32")
        for batch in (1, 8)
    }
    assert {c.share for c in of("decode") if c.against_dense} == {0.8}
    steps = {c.name: (c.dtype, c.limit) for c in of("layer") if c.name.startswith("decode_")}
    assert steps == {f"decode_layer_{dtype}": (dtype, 1.5) for dtype in ("bfloat16", "float32")}


def test_select():
    assert registry.select(None) == registry.CASES
    names = [case.name for case in registry.select(["selected_float32_forward", "compress_float"])]
    assert names == [
        "selected_float32_forward",
        "compress_float32_forward",
        "compress_float32_backward",
    ]
    with pytest.raises(ValueError, match="nonsense"):
        registry.select(["flash", "nonsense"])
