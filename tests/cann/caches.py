"""Layers that generate from caches on MindSpore's device Ascend; prints what does not hold."""

import copy
import sys
from dataclasses import replace

import mindspore as ms
import numpy as np
from mindspore import Tensor

from model_zoo_demo import config as configs
from model_zoo_demo import generate, train
from model_zoo_demo.machine import set_up
from model_zoo_demo.model import Model
from tests.nn.test_cache import CONFIG, HIDDEN, Step, draw, make

SETTINGS = replace(
    CONFIG,
    head_dim=32,
    value_head_dim=16,
    compress_block_size=32,
    compress_stride=16,
    select_block_size=32,
    window_size=24,
)
PROMPTS = [b"the cat sat on the mat and", b"hello"]
BYTES = 6


def check(name, holds):
    """Says what does not hold."""
    if not holds:
        print(f"NOT {name}", flush=True)


def check_layer(kind):
    """Pieces against the whole, and what users do with rows."""
    layer, x = make(kind, SETTINGS), draw(2, 70, HIDDEN).astype(np.float16)
    whole, step = layer(Tensor(x)).asnumpy().astype(np.float32), Step(layer)
    cache = layer.new_cache(2, 80, "float16")
    parts = [step(Tensor(x[:, a:b]), cache).asnumpy() for a, b in ((0, 61), (61, 62), (62, 70))]
    error = np.abs(np.concatenate(parts, 1) - whole).max() / np.abs(whole).max()
    check(f"{kind}: pieces are the whole, got {error}", error <= 2.0**-7)
    cache.truncate([62, 62])
    packed, ends = Tensor(x[:, 62:].reshape(16, HIDDEN)), Tensor([8, 16], ms.int64)
    ragged = layer(packed, ends, cache=copy.deepcopy(cache)).asnumpy()
    check(f"{kind}: lengths in a Tensor", np.array_equal(ragged, parts[2].reshape(16, HIDDEN)))
    chosen, grown = cache.select([1, 0]), cache.grow(100)
    cache.copy_row(1, 0)
    check(f"{kind}: lengths", cache.lengths.asnumpy().tolist() == [62, 62])
    rows = {"select": (chosen, [1, 0]), "grow": (grown, [0, 1]), "copy_row": (cache, [0, 0])}
    for name, (other, order) in rows.items():
        last = step(Tensor(x[order, 62:]), other).asnumpy()
        check(f"{kind}: {name}", np.array_equal(last, parts[2][order]))


def generated(mode, device):
    """Texts of a model whose parameters are those of every device."""
    set_up(mode, device)
    model = Model(configs.load(train.CONFIGS / "twin.json"))
    rng = np.random.default_rng(5)
    for parameter in model.trainable_params():
        if parameter.ndim == 2:
            parameter.set_data(Tensor(rng.normal(0, 0.3, parameter.shape).astype(np.float32)))
    return generate.generate(model, 96, PROMPTS, BYTES, temperature=0)


def main(mode):
    """All of it in a mode."""
    ms.set_context(device_target="Ascend", mode={"graph": 0, "pynative": 1}[mode])
    for kind in ("sparse", "dense"):
        check_layer(kind)
    print("TEXTS", [text.hex() for text in generated(mode, "Ascend")], flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
