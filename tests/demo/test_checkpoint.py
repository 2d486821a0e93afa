"""Checkpoints come back as they were, replace each other whole, and say what is wrong with them."""

from dataclasses import fields, replace

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor

from model_zoo_demo import checkpoint, runlog
from model_zoo_demo.config import Config
from model_zoo_demo.errors import InputError


def parameters(seed):
    rng = np.random.default_rng(seed)
    shapes = {"layer.weight": (3, 4), "layer.bias": (4,), "adamw_first.layer.bias": (4,)}
    return [
        Parameter(Tensor(rng.standard_normal(shape).astype(np.float32)), name=name)
        for name, shape in shapes.items()
    ]


CONFIG = Config(layers=3, learning_rate=1e-4)


def test_round_trip(tmp_path):
    saved = parameters(1)
    checkpoint.save(tmp_path, saved, CONFIG, step=12, data="abc")
    arrays, config, about = checkpoint.load(tmp_path)
    assert config == CONFIG and about == {"step": 12, "data": "abc"}
    restored = parameters(2)
    checkpoint.restore(restored, arrays, tmp_path)
    for before, after in zip(saved, restored):
        assert before.asnumpy().tobytes() == after.asnumpy().tobytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [checkpoint.NAME]
    assert (tmp_path / checkpoint.NAME).stat().st_mode & 0o777 == 0o644
    # MindSpore itself reads it.
    found = ms.load_checkpoint(str(tmp_path / checkpoint.NAME))
    assert (found["layer.bias"].asnumpy() == saved[1].asnumpy()).all()


@pytest.mark.parametrize("moment", ["while writing", "before replacing"])
def test_an_interruption_leaves_the_old_one(tmp_path, monkeypatch, moment):
    checkpoint.save(tmp_path, parameters(1), CONFIG, step=1)
    before = (tmp_path / checkpoint.NAME).read_bytes()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    if moment == "while writing":

        def half(values, path, **_):
            with open(path, "wb") as file:
                file.write(before[: len(before) // 2])
            interrupt()

        monkeypatch.setattr(checkpoint.ms, "save_checkpoint", half)
    else:
        monkeypatch.setattr(checkpoint.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path, parameters(2), CONFIG, step=2)
    assert (tmp_path / checkpoint.NAME).read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [checkpoint.NAME]


def test_what_is_not_a_checkpoint(tmp_path):
    with pytest.raises(InputError, match=f"no checkpoint in {tmp_path}"):
        checkpoint.load(tmp_path)
    (tmp_path / checkpoint.NAME).write_bytes(b"some text, but no checkpoint")
    with pytest.raises(InputError, match="is not a checkpoint of this demo"):
        checkpoint.load(tmp_path)
    ms.save_checkpoint([{"name": "a", "data": Tensor([1.0])}], str(tmp_path / checkpoint.NAME))
    with pytest.raises(InputError, match="is not a checkpoint of this demo"):
        checkpoint.load(tmp_path)


def test_parameters_that_do_not_fit():
    with pytest.raises(InputError, match="runs/x: the checkpoint has no layer.weight"):
        checkpoint.restore(parameters(1), {}, "runs/x")
    arrays = {p.name: p.asnumpy() for p in parameters(1)} | {"layer.bias": np.zeros(5, np.float32)}
    with pytest.raises(InputError, match=r"runs/x: layer.bias must be \(4,\), got \(5,\)"):
        checkpoint.restore(parameters(1), arrays, "runs/x")


REPORTING = {"eval_every", "eval_bytes", "checkpoint_every", "sample_bytes", "sample_prompt"}


@pytest.mark.parametrize("name", [field.name for field in fields(Config)])
def test_only_reporting_may_change(name):
    changed = replace(CONFIG)
    object.__setattr__(changed, name, "another")  # not a value that a Config would take
    if name in REPORTING:
        checkpoint.same_run(changed, CONFIG, "runs/x")
        return
    with pytest.raises(InputError) as caught:
        checkpoint.same_run(changed, CONFIG, "runs/x")
    before = getattr(CONFIG, name)
    text, _, advice = str(caught.value).partition("; ")
    assert text == f"--resume: runs/x was trained with {name}={before}, not another"
    assert ("train anew with --out" in advice) == (name == "steps")


def test_log(tmp_path):
    log = runlog.RunLog(tmp_path)
    for step in range(5):
        log.write(step=step, train=1.0 + step)
    log.write(step=5, validation=2.0)
    log.close()
    with open(tmp_path / runlog.NAME, "a") as file:
        file.write('{"step": 5, "tr')  # cut off
    assert [r["step"] for r in runlog.read(tmp_path)] == [0, 1, 2, 3, 4, 5]
    # After three steps the next one is step 3: it will be written again.
    log = runlog.RunLog(tmp_path, 3)
    log.write(step=3, train=9.0)
    log.close()
    assert [r["train"] for r in runlog.read(tmp_path)] == [1.0, 2.0, 3.0, 9.0]
    runlog.RunLog(tmp_path).close()
    assert runlog.read(tmp_path) == []


def test_smooth():
    assert runlog.smooth([3.0] * 50) == pytest.approx([3.0] * 50)
    assert runlog.smooth([1.0, 2.0], share=0.1) == [1.0, 2.0]
    ramp = runlog.smooth([float(i) for i in range(1000)])
    assert all(a < b for a, b in zip(ramp, ramp[1:])) and 960 < ramp[-1] < 999


def test_plot(tmp_path):
    records = [{"step": i, "train": 8 / (1 + i)} for i in range(9)] + [{"step": 9, "validation": 1}]
    runlog.plot({"nsa": records, "empty": []}, tmp_path / "loss.png", "Loss", (0.5, "chance"))
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["loss.png"]


def test_seconds():
    """The first step's seconds lie before the second one; evaluations take none."""
    records = [{"step": 0, "validation": 8.0}, {"step": 0, "tokens_per_second": 10.0}]
    records += [{"step": 1, "tokens_per_second": 40.0}, {"step": 2, "validation": 7.0}]
    assert runlog.seconds_at(records, 20) == [0.0, 2.0, 2.5]


def test_plot_of_a_comparison(tmp_path):
    steps = [{"step": i, "train": 8 / (1 + i), "tokens_per_second": 9.0} for i in range(9)]
    runs = {"nsa": [*steps, {"step": 9, "validation": 1}], "dense": steps}
    runlog.plot_comparison(runs, tmp_path / "compare.png", "Loss", 4096)
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")
