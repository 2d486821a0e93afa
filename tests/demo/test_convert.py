"""A dense model of the demo goes on with NSA."""

import json
from dataclasses import replace

import numpy as np
import pytest
from mindspore import Tensor

from model_zoo_demo import convert, runlog, train
from model_zoo_demo.errors import InputError
from model_zoo_demo.model import Model

from .runs import TINY, write_folder


def test_the_model_is_the_dense_one():
    """While the blocks hold the context; every parameter has a name of its own."""
    config = replace(TINY, attention="dense", select_block_count=8)
    model = Model(config)
    tokens = Tensor(np.random.default_rng(0).integers(0, 256, 64).astype(np.int32))
    before = model(tokens, (64,)).asnumpy()
    convert.convert(model, config, gating="residual", shared_kv=True)
    np.testing.assert_allclose(model(tokens, (64,)).asnumpy(), before, rtol=0, atol=1e-5)
    names = [p.name for p in model.get_parameters()]
    assert len({*names}) == len(names) and "layers.1.attention.gates.linear.weight" in names
    with pytest.raises(InputError, match="the attention of every layer must be dense"):
        convert.convert(model, config)


def test_program(tmp_path, capsys):
    """Trains, converts and goes on, and goes on again from the models that are there."""
    write_folder(tmp_path / "text")
    settings = tmp_path / "config.json"
    settings.write_text((train.CONFIGS / "tiny.json").read_text())
    command = [str(settings), "--data", str(tmp_path / "text"), "--out", str(tmp_path / "runs")]
    command += [
        "--mode",
        "pynative",
        "--set",
        "steps=2",
        "--set",
        "eval_every=2",
        "--set",
        "layers=1",
    ]
    command += ["--set", "eval_bytes=256", "--more", "2"]
    assert convert.main(command) == 0
    printed = capsys.readouterr().out
    for name in convert.CONTINUED:
        records = runlog.read(tmp_path / "runs" / name)
        losses = [r["validation"] for r in records if "validation" in r]
        assert len(losses) == 3 and sum("loss" in r for r in records) == 2
        assert f"{name:10} {losses[0]:.4f} then {losses[-1]:.4f}" in printed
    last = json.loads(
        (tmp_path / "runs" / "trained-dense" / "log.jsonl").read_text().split("\n")[-2]
    )
    first = runlog.read(tmp_path / "runs" / "dense")[0]
    assert first["validation"] == pytest.approx(last["validation"], abs=1e-5)
    assert "at least 1" in convert.main([*command[:-1], "0"])
