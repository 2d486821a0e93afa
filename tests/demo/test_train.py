"""Training: it learns, resumes bit for bit, stops on Ctrl-C, and refuses what it cannot use."""

import json
import math
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa.nn import ParallelGroups, WorkerGroup
from model_zoo_demo import checkpoint, data, generate, runlog, selection, train
from model_zoo_demo.errors import InputError
from model_zoo_demo.model import Model
from model_zoo_demo.worker import Worker

from .first_losses import STORED
from .runs import ROOT, TINY, environment, silent, tiny, write_folder

MODES = pytest.mark.parametrize("mode", ["graph", pytest.param("pynative", marks=pytest.mark.soak)])


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("text"))


@pytest.mark.parametrize("isa", [pytest.param("scalar", marks=pytest.mark.soak), "best"])
def test_first_losses(isa):
    env = environment(**({"MINDSPORE_NSA_ISA": "scalar"} if isa == "scalar" else {}))
    if isa == "best":
        env.pop("MINDSPORE_NSA_ISA", None)
    done = subprocess.run(
        [sys.executable, "-m", "tests.demo.first_losses"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found, stored = json.loads(done.stdout), json.loads(STORED.read_text())
    assert len(found) == 10
    np.testing.assert_allclose(found, stored, rtol=1e-4)
    assert stored[0] == pytest.approx(math.log(256), abs=0.3) and stored[-1] < stored[0] - 1


class PowerCut(Exception):
    """Nothing is done after it."""


def power_cut():
    raise PowerCut


def after_step(step, action):
    """A RunLog.write that does something once a step is logged."""
    write = runlog.RunLog.write

    def write_and_act(self, **record):
        write(self, **record)
        if record["step"] == step and "loss" in record:
            action()

    return write_and_act


@pytest.mark.parametrize("mode", ["pynative", pytest.param("graph", marks=pytest.mark.soak)])
def test_resume_gives_the_same_bits(mode, text, tmp_path, monkeypatch):
    """Stopped by Ctrl-C in the middle, and again between two checkpoints without any."""
    train.set_up(mode)
    settings = ("layers=1", "steps=7", "eval_every=4", "checkpoint_every=5", "eval_bytes=256")
    whole = tiny(tmp_path / "whole", text, *settings)
    assert len(whole) == 7 and whole[-1] < whole[0] - 1

    with monkeypatch.context() as patch:
        interrupt = after_step(2, lambda: signal.raise_signal(signal.SIGINT))
        patch.setattr(runlog.RunLog, "write", interrupt)
        assert tiny(tmp_path / "parts", text, *settings) == whole[:3]
    assert checkpoint.load(tmp_path / "parts")[2]["step"] == 3

    with monkeypatch.context() as patch:
        patch.setattr(runlog.RunLog, "write", after_step(5, power_cut))
        with pytest.raises(PowerCut):
            tiny(tmp_path / "parts", text, *settings, resume=True)
    assert checkpoint.load(tmp_path / "parts")[2]["step"] == 5
    assert runlog.read(tmp_path / "parts")[-1]["step"] == 5

    assert tiny(tmp_path / "parts", text, *settings, resume=True) == whole
    records = [runlog.read(tmp_path / name) for name in ("whole", "parts")]
    for record in records[0] + records[1]:
        record.pop("tokens_per_second", None)
    assert records[0] == records[1]
    arrays = [checkpoint.load(tmp_path / name)[0] for name in ("whole", "parts")]
    assert arrays[0].keys() == arrays[1].keys()
    assert all(arrays[0][n].tobytes() == arrays[1][n].tobytes() for n in arrays[0])


def test_program_and_its_interruption(text, tmp_path):
    """From the command line: Ctrl-C, then the rest, the plot, a sample and the figures."""
    out = tmp_path / "run"
    command = [sys.executable, "-m", "model_zoo_demo.train", train.CONFIGS / "tiny.json"]
    command += ["--out", out, "--data", text, "--set", "steps=60", "--set", "layers=1"]
    command += ["--set", "eval_every=30", "--set", "sample_bytes=8"]
    shared = {"cwd": ROOT, "env": environment(), "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **shared) as process:
        while sum("loss" in record for record in runlog.read(out)) < 3:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        printed = process.communicate()[0]
    assert process.returncode == train.INTERRUPTED
    step = checkpoint.load(out)[2]["step"]
    assert 3 <= step < 60 and f"interrupted; the checkpoint is in {out}" in printed

    done = subprocess.run([*command, "--resume"], **shared)
    assert done.returncode == 0
    assert f"continuing after step {step}" in done.stdout
    records = runlog.read(out)
    losses = [record["train"] for record in records if "train" in record]
    assert len(losses) == 60 and losses[-1] < losses[0] / 2
    measured = [record["validation"] for record in records if "validation" in record]
    assert measured[0] == pytest.approx(8, abs=0.5) and measured[-1] < 4
    for line in (
        f"first step  {losses[0]:.4f} bits per byte",
        f"last step   {losses[-1]:.4f} bits per byte",
        f"validation  {measured[-1]:.4f} bits per byte",
    ):
        assert line in done.stdout
    assert re.search(r"^\d+ tokens/s", done.stdout, re.MULTILINE)
    for name in ("loss.png", "selection.png", "sample.txt", checkpoint.NAME, runlog.NAME):
        assert str(out / name) in done.stdout and (out / name).stat().st_size > 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nothing.json"], "config nothing.json: No such file"),
        (["--set", "layers=x"], "'x' is not int"),
        (["--set", "kv_heads=3"], "num_heads must be a multiple of num_kv_heads"),
        (["--data", "nothing"], "--data: nothing does not exist"),
        (["--set", "device=Ascend"], "device Ascend cannot be used"),
        (["--resume"], "no checkpoint in"),
        (["--context", "2"], "--context, --tensor: parallel_groups: context * tensor must divide"),
        (["--tensor", "0"], "--context, --tensor: parallel_groups: tensor must be at least 1"),
    ],
)
def test_wrong_arguments(arguments, message, tmp_path):
    """One line, no traceback."""
    config = [] if arguments[0].endswith(".json") else [str(train.CONFIGS / "tiny.json")]
    result = train.main([*config, *arguments, "--out", str(tmp_path), "--mode", "pynative"])
    assert result.startswith("train: ") and message in result and "\n" not in result


def test_runs_are_not_mixed_up(text, tmp_path):
    train.set_up("pynative")
    out = tmp_path / "run"
    tiny(out, text, "steps=1")
    with pytest.raises(InputError, match=f"{out} holds a checkpoint: add --resume"):
        tiny(out, text, "steps=1")
    with pytest.raises(InputError, match="was trained with steps=1, not 2"):
        tiny(out, text, "steps=2", resume=True)
    with pytest.raises(InputError, match="was trained on other text"):
        tiny(out, write_folder(tmp_path / "other", size=800), "steps=1", resume=True)
    one, three = (WorkerGroup("", tuple(range(n)), 0, False) for n in (1, 3))
    with pytest.raises(InputError, match="rows=4 must be a multiple of 3 workers"):
        Worker(TINY, ParallelGroups(three, one, one, three))


def test_a_loss_that_is_not_finite_stops(text, tmp_path, monkeypatch):
    train.set_up("pynative")
    monkeypatch.setattr(train.Step, "__call__", lambda *_: (math.nan, 1.0))
    with pytest.raises(InputError, match="the loss of step 0 is nan"):
        tiny(tmp_path, text)
    assert not (tmp_path / checkpoint.NAME).exists()


@pytest.mark.parametrize(
    "setting, mode",
    [
        # Layers and dtypes in graphs are those of other tests.
        *(("attention=dense", "pynative"), ("attention=window", "pynative")),
        *(("dtype=bfloat16", "pynative"), ("documents=joined", "graph")),
    ],
)
def test_one_word_changes_the_model(setting, mode, text, tmp_path):
    train.set_up(mode)
    losses = tiny(tmp_path, text, setting, "steps=8", "eval_every=100", "eval_bytes=256")
    assert losses[-1] < losses[0] - 1
    stored = json.loads(STORED.read_text())
    assert losses[:2] != pytest.approx(stored[:2], rel=1e-5)
    assert losses[0] == pytest.approx(stored[0], rel=1e-1)


def test_seeds_differ(text, tmp_path):
    train.set_up("pynative")
    small = ("steps=1", "layers=1", "eval_bytes=256")
    one, two = (tiny(tmp_path / s, text, *small, f"seed={s}") for s in "12")
    assert one[0] != two[0]


def test_generation(tmp_path):
    """Greedy: what the model itself finds likeliest, byte after byte, also past its context."""
    train.set_up("pynative")
    model = Model(TINY)
    prompt, context = b"the cat", 10
    (text,) = generate.generate(model, context, [prompt], 6, temperature=0)
    tokens = [0, *prompt]
    while len(tokens) < 8 + len(text):
        prefix = np.array(tokens[-context:], np.int32)
        ends = Tensor(np.array([len(prefix)], np.int64))
        tokens.append(int(model(Tensor(prefix), ends).asnumpy()[-1].argmax()))
    assert text == bytes(tokens[8:]) and len(text) == 6


@MODES
def test_generation_without_caches(mode):
    """It gives the same bytes, within the context and past it."""
    train.set_up(mode)
    model = Model(TINY)
    # START and the prompt are eight tokens.
    for context in (16, 10):
        texts = [
            generate.generate(model, context, [b"the cat"], 5, temperature=0, cached=cached)
            for cached in (True, False)
        ]
        assert texts[0] == texts[1] and len(texts[0][0]) == 5


@pytest.mark.parametrize("mode", ["pynative", pytest.param("graph", marks=pytest.mark.soak)])
def test_generation_of_several_texts(mode, monkeypatch):
    """Each as alone and recomputed: of any length, past the context, ended before the others."""
    train.set_up(mode)
    model, draws, draw = Model(replace(TINY, layers=1)), {}, generate.choose

    def choose(logits, temperature, top_k, top_p, rng):
        draws[rng] = draws.get(rng, 0) + 1
        token = draw(logits, temperature, top_k, top_p, rng)
        return data.START if draws[rng] == 4 and token % 2 else max(1, token)

    monkeypatch.setattr(generate, "choose", choose)
    prompts = [b"the", b"", b"a long prompt"]
    together = generate.generate(model, 8, prompts, 7, seed=5)
    for i, prompt in enumerate(prompts):
        alone = generate.generate(model, 8, [prompt], 7, seed=5 + i, cached=False)
        assert alone == together[i : i + 1]
    assert {len(text) for text in together} == {3, 7}
    # Samples of a prompt, which is read once, are what as many equal prompts give.
    repeated = generate.generate(model, 8, [p for p in prompts for _ in range(2)], 7, seed=5)
    assert generate.generate(model, 8, prompts, 7, seed=5, samples=2) == repeated


def test_choice():
    rng = np.random.default_rng(0)
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    drawn = [generate.choose(logits, 1.0, 0, 1.0, rng) for _ in range(4000)]
    assert np.bincount(drawn) / 4000 == pytest.approx(np.exp(logits), abs=0.03)
    drawn = [generate.choose(logits, 0.5, 2, 1.0, rng) for _ in range(4000)]
    assert np.bincount(drawn) / 4000 == pytest.approx([25 / 34, 9 / 34], abs=0.03)
    # The likeliest that make up 0.79: two are 0.8. Of the reverse order, the last two.
    for values, expected in ((logits, [5 / 8, 3 / 8]), (logits[::-1], [0, 0, 3 / 8, 5 / 8])):
        drawn = [generate.choose(values, 1.0, 0, 0.79, rng) for _ in range(4000)]
        assert np.bincount(drawn) / 4000 == pytest.approx(expected, abs=0.03)
    assert {generate.choose(logits, 1.0, 0, 0.01, rng) for _ in range(50)} == {0}
    assert generate.choose(logits, 0, 0, 1.0, rng) == 0


def test_generate_program(text, tmp_path, capsys):
    train.set_up("pynative")
    tiny(tmp_path, text, "steps=1", "layers=1", "eval_bytes=256")
    generate.main([str(tmp_path), "--prompt", "the", "--bytes", "5", "--mode", "pynative"])
    printed = capsys.readouterr()
    assert printed.out.startswith("the") and "bytes/s" in printed.err
    two = ["--prompt", "the", "--prompt", "a cat", "--bytes", "5", "--mode", "pynative"]
    generate.main([str(tmp_path), *two])
    parts = capsys.readouterr().out.split("--- ")
    assert parts[1].startswith("1 ---\nthe") and parts[2].startswith("2 ---\na cat")
    long = ["--prompt", "the " * 500, "--bytes", "2", "--mode", "pynative", "--no-cache"]
    generate.main([str(tmp_path), *long])
    assert "looks at the last of them only" in capsys.readouterr().err
    generate.main([str(tmp_path), *two, "--samples", "2"])
    four = capsys.readouterr().out.split("--- ")
    assert [part[6:9] for part in four[1:]] == ["the", "the", "a c", "a c"]
    assert four[1] == parts[1] and len(four) == 5
    with pytest.raises(InputError, match="--samples must be at least 1"):
        generate.main([str(tmp_path), "--samples", "0"])
    with pytest.raises(InputError, match="--bytes must not be negative"):
        generate.main([str(tmp_path), "--bytes", "-1"])
    for value in ("0", "1.5", "nan"):
        with pytest.raises(InputError, match="--top-p must be above 0 and at most 1, got"):
            generate.main([str(tmp_path), "--top-p", value])
    with pytest.raises(InputError, match="no checkpoint in"):
        generate.main([str(tmp_path / "nothing")])


def test_prompts_that_are_not_utf8(text, tmp_path, capsys):
    """A shell passes any bytes, and Python those that are no UTF-8 as surrogates."""
    train.set_up("pynative")
    prompt = b"caf\xe9".decode(errors="surrogateescape")
    common = ["--data", str(text), "--mode", "pynative"]
    tiny_config = str(train.CONFIGS / "tiny.json")
    short = ("steps=1", "layers=1", "eval_bytes=256", "sample_bytes=3")
    settings = [f"--set={s}" for s in (*short, f"sample_prompt={prompt}")]
    assert train.main([tiny_config, "--out", str(tmp_path), *common, *settings]) == 0
    assert (tmp_path / "sample.txt").read_bytes().startswith("caf\ufffd".encode())
    capsys.readouterr()
    generate.main([str(tmp_path), "--prompt", prompt, "--bytes", "3", "--mode", "pynative"])
    assert capsys.readouterr().out.startswith("caf\ufffd")
    with pytest.raises(InputError, match="config: sample_prompt must be text"):
        replace(TINY, sample_prompt="\ud800")


@pytest.mark.parametrize("vocabulary", [100, 300])
def test_tokens_that_are_not_bytes(vocabulary, text, tmp_path):
    with pytest.raises(InputError, match=f"config: vocabulary must be 256.* got {vocabulary}"):
        tiny(tmp_path, text, f"vocabulary={vocabulary}")
    config = replace(TINY, vocabulary=vocabulary)
    checkpoint.save(tmp_path, Model(config).trainable_params(), config, step=0, data="")
    with pytest.raises(InputError, match=f"vocabulary must be 256.* got {vocabulary}"):
        generate.main([str(tmp_path), "--bytes", "1"])
    assert f"got {vocabulary}" in selection.main([str(tmp_path)])


def test_a_step_that_diverges_leaves_the_checkpoint(text, tmp_path):
    """The last one too, after which no other step would tell."""
    train.set_up("pynative")
    with pytest.raises(InputError, match="no finite loss after step 1: lower learning_rate"):
        tiny(tmp_path, text, "layers=1", "steps=1", "warmup=0", "learning_rate=inf")
    assert not (tmp_path / checkpoint.NAME).exists()
    settings = ("layers=1", "steps=9", "warmup=0", "learning_rate=inf", "checkpoint_every=1")
    with pytest.raises(InputError, match="no finite weights after step 1: lower learning_rate"):
        tiny(tmp_path, text, *settings)
    assert not (tmp_path / checkpoint.NAME).exists()


def test_evaluation_is_of_the_whole_text(text):
    """Bits per byte counted by hand, piece by piece, are the same."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    _, validation = train.data.load([text], 64, 4, silent)
    model = Model(TINY)
    loss = train.Loss(model)
    found = train.bits_per_byte(loss, validation, TINY, 100)
    nats, count = 0.0, 0
    for position in validation.in_order(4, 64, TINY.eval_bytes).reshape(-1):
        tokens, targets, ends = validation.batch([position], 64)
        logits = model(Tensor(tokens), Tensor(ends)).asnumpy().astype(np.float64)
        shifted = logits - logits.max(-1, keepdims=True)
        likely = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
        nats -= likely[np.arange(64), targets].sum()
        count += 64
    assert count >= 512
    assert found == pytest.approx(nats / count / math.log(2), rel=1e-5)
