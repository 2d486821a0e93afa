"""Every committed config loads, and its model computes; that of Ascend keeps the limits there."""

import json
from dataclasses import asdict, replace

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa import _native
from model_zoo_demo import config as configs
from model_zoo_demo import dsa, recall
from model_zoo_demo.model import Model, arguments, nsa_config
from model_zoo_demo.train import CONFIGS

PATHS = sorted(CONFIGS.glob("*.json"))


def load(path):
    """The `Config` of a file, and what the file says of it."""
    given = json.loads(path.read_text())
    if "indexer" in given:
        return dsa.load(path)[0], given["model"]
    if "task" not in given:
        return configs.load(path), given
    return recall.load(path)[0], given["model"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_loads_and_computes(path):
    """With one of its layers, on two short sequences."""
    config, given = load(path)
    assert given and {name: asdict(config)[name] for name in given} == given
    assert config.warmup < config.steps and config.checkpoint_every <= config.steps
    ms.set_context(mode=ms.PYNATIVE_MODE)
    model = Model(replace(config, layers=1))
    length = config.select_block_size + 7
    tokens = np.random.default_rng(0).integers(1, config.vocabulary, 2 * length, np.int32)
    logits = model(*arguments((tokens, (length, 2 * length)))).asnumpy()
    assert logits.shape == (2 * length, config.vocabulary) and np.isfinite(logits).all()
    assert np.ptp(logits, axis=-1).min() > 0


def calls(config, tokens):
    """(operator, inputs, attributes) of a layer's forward pass over one sequence, for inference."""
    sizes, heads, kv_heads, dim = nsa_config(config), config.heads, config.kv_heads, config.head_dim
    window = {
        "compress_block_size": sizes.compress_block_size,
        "compress_stride": sizes.compress_stride,
    }
    blocks = {
        "scale_value": dim**-0.5,
        "head_num": heads,
        "select_block_size": sizes.select_block_size,
        "select_block_count": sizes.select_block_count,
        "causal": 1,
    }
    rows = (tokens - sizes.compress_block_size) // sizes.compress_stride + 1

    def half(*shape):
        return (config.dtype, shape, None)

    def ends(count):
        return ("int64", (1,), (count,))

    query, key = half(tokens, heads, dim), half(tokens, kv_heads, dim)
    compressed = half(rows, kv_heads, dim)
    indices = ("int32", (tokens, kv_heads, sizes.select_block_count), None)
    lists = [ends(tokens)] * 2
    band = {
        "head_num": heads,
        "scalar_value": dim**-0.5,
        "pre_tokens": sizes.window_size - 1,
        "next_tokens": 0,
        "input_layout": "TND",
        "sparse_mode": 4,
    }
    return [
        (
            "NsaCompress",
            [key, half(sizes.compress_block_size, kv_heads), ends(tokens)],
            window,
        ),
        (
            "NsaCompressAttention",
            [query, compressed, compressed, None, None, ends(tokens), ends(rows), None, None],
            {**window, **blocks, "init_blocks": 1, "local_blocks": 2, "importance": "overlap"},
        ),
        ("NsaSelectedAttention", [query, key, key, indices, *lists, None], blocks),
        ("FlashAttentionScore", [query, key, key, *[None] * 4, *lists, *[None] * 3], band),
    ]


@pytest.fixture(scope="module")
def ascend():
    config = configs.load(CONFIGS / "ascend.json")
    assert config.device == "Ascend" and config.dtype == "bfloat16"
    return config


def test_sizes_are_within_the_limits_of_ascend(ascend):
    for operator, inputs, attributes in calls(ascend, ascend.context):
        assert _native.infer(operator, inputs, attributes, "ascend")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"compress_stride": 8}, "compress_stride must be at least 16"),
        ({"select_block_count": 33, "context": 8192}, "select_block_count"),
        ({"head_dim": 264}, "D of input must be"),
        ({"dtype": "float32"}, "float32"),
    ],
)
def test_other_sizes_are_not(ascend, change, message):
    """So the test above would see them."""
    config = replace(ascend, **change, device="")
    with pytest.raises((TypeError, ValueError), match=message):
        for operator, inputs, attributes in calls(config, config.context):
            _native.infer(operator, inputs, attributes, "ascend")


def test_one_document_or_a_list_of_it():
    """A constant list and a Tensor give the same logits."""
    config = configs.load(CONFIGS / "tiny.json")
    model = Model(config)
    tokens = Tensor(np.arange(40, dtype=np.int32))
    constant = model(tokens, (20, 40)).asnumpy()
    listed = model(tokens, Tensor([20, 40], ms.int64)).asnumpy()
    np.testing.assert_array_equal(constant, listed)
    assert (constant[20:] != model(tokens, (40,)).asnumpy()[20:]).any()
