"""The recall task is what it says, and its training stops and resumes; so does the comparison."""

import json
import signal
from dataclasses import replace

import numpy as np
import pytest

from model_zoo_demo import checkpoint, compare, recall, runlog, train
from model_zoo_demo.errors import InputError
from model_zoo_demo.recall import Task

from .runs import TINY, silent, write_folder
from .test_train import after_step

CONFIG, TASK = recall.load(train.CONFIGS / "recall.json")
STAGES = ((64, 4, 2), (128, 2, 2))
# Settings that take less time.
FEW = ["--set", "layers=1", "--set", "eval_bytes=256", "--set", "sample_bytes=4"]
SMALL = Task(keys=12, values=4, fillers=5, pairs=6, questions=4, gap=16, stages=STAGES)


@pytest.mark.parametrize("task, length", [(SMALL, 64), (SMALL, 128), (TASK, 4096), (TASK, 256)])
def test_sequences(task, length):
    rows = 5
    tokens, asked, expected, ends = task.draw(np.random.default_rng(1), rows, length)
    assert ends.tolist() == [length * (i + 1) for i in range(rows)]
    assert tokens.dtype == asked.dtype == expected.dtype == np.int32
    assert (tokens >= 0).all() and (tokens < task.vocabulary).all()
    first_value, first_filler = task.keys, task.keys + task.values
    end = length - 2 * task.questions
    for row in range(rows):
        sequence = tokens[row * length : (row + 1) * length]
        keys = np.flatnonzero(sequence[:end] < first_value)
        assert len(keys) == len({*sequence[keys].tolist()}) == task.pairs
        follow = sequence[keys + 1]
        assert ((follow >= first_value) & (follow < first_filler)).all()
        assert (sequence[:end] >= first_filler).sum() == end - 2 * task.pairs
        said = dict(zip(sequence[keys].tolist(), follow.tolist()))
        places = asked[row * task.questions : (row + 1) * task.questions] - row * length
        answers = expected[row * task.questions : (row + 1) * task.questions]
        assert places.tolist() == list(range(end, length, 2))
        assert [said[key] for key in sequence[places].tolist()] == answers.tolist()
        # Even the value, the last token of a pair, is that far from the first question.
        assert end - (keys.max() + 1) >= task.distance(length)


def test_the_shortest_sequence():
    """There is no place for another pair; see `test_refused` for a token less."""
    task = replace(TASK, stages=((85, 4, 1), TASK.stages[-1]))
    task.check(CONFIG)
    task.draw(np.random.default_rng(0), 4, 85)
    with pytest.raises(InputError, match="17 pairs do not fit into length 85"):
        replace(task, pairs=17).check(CONFIG)


def test_the_task_is_out_of_reach_of_windows():
    length = TASK.stages[-1][0]
    assert length == 4096
    assert TASK.distance(length) >= CONFIG.layers * CONFIG.window_size + 512
    assert TASK.evaluation == 1000


def test_stages():
    assert [SMALL.stage(step) for step in range(6)] == [(64, 4)] * 2 + [(128, 2)] * 4
    assert SMALL.steps == 4


class Oracle:
    """Knows every answer but those of every fifth question."""

    def __init__(self, task):
        self.task, self.calls = task, 0

    def __call__(self, tokens, asked, ends):
        tokens, asked = tokens.asnumpy(), asked.asnumpy()
        right = np.eye(self.task.vocabulary)[tokens[asked + 1]]
        right[::5] *= -1
        self.calls += 1
        return recall.Tensor(right)


def test_accuracy():
    oracle = Oracle(SMALL)
    # 25 sequences in batches of 10: only half of the last batch counts.
    assert recall.accuracy(oracle, SMALL, 1, 25, 10, 64) == pytest.approx(0.8)
    assert oracle.calls == 3


def test_evaluation_is_not_training(tmp_path, monkeypatch):
    """No sequence of training comes again, be it in training or to be evaluated."""
    train.set_up("pynative")
    steps, evaluations = [], []

    def step(self, batches, number):
        steps.extend(batches[0][0].reshape(len(batches[0][3]), -1))
        return 1.0, 1.0

    def answer(self, tokens, asked, ends):
        evaluations.extend(tokens.asnumpy().reshape(len(ends), -1))
        return recall.Tensor(np.zeros((len(asked), SMALL.vocabulary), np.float32))

    monkeypatch.setattr(recall.Step, "__call__", step)
    monkeypatch.setattr(recall.Answers, "construct", answer)
    sizes = {"vocabulary": SMALL.vocabulary, "steps": 4, "eval_every": 3}
    recall.train(replace(TINY, **sizes), replace(SMALL, evaluation=6), tmp_path, say=silent)
    seen, fresh = ([row.tobytes() for row in rows] for rows in (steps, evaluations))
    assert len(seen) == len({*seen}) == 12 and len(fresh) == 32 + 6
    assert not {*seen} & {*fresh}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"gap": 575}, r"gap must be at least layers \* window_size \+ 512 = 576"),
        ({"questions": 17}, "questions <= pairs <= keys must hold"),
        ({"stages": [[84, 4, 1], [4096, 1, 1]]}, "16 pairs do not fit into length 84"),
        ({"stages": [[1024, 4, 1]]}, "at most a quarter of the last length"),
        ({"wrong": 1}, "no setting of the task is called 'wrong'"),
        ({"stages": 7}, "TypeError"),
    ],
)
def test_refused(change, message, tmp_path):
    values = json.loads((train.CONFIGS / "recall.json").read_text())
    values["task"] |= change
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=message):
        recall.load(path)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_answers_from_caches(mode):
    """The logits of one pass, where a chunk leaves windows of the compression open."""
    train.set_up(mode)
    model = recall.Model(replace(TINY, layers=2, vocabulary=SMALL.vocabulary))
    tokens, asked, _, ends = SMALL.draw(np.random.default_rng(3), 3, 128)
    given = [recall.Tensor(values) for values in (tokens, asked, ends)]
    one_pass = recall.Answers(model)(*given).asnumpy()
    assert recall.CachedAnswers(model)(*given).asnumpy() == pytest.approx(one_pass, abs=2e-5)


def test_training_resumes(tmp_path, monkeypatch, capsys):
    train.set_up("pynative")
    sizes = {"vocabulary": SMALL.vocabulary, "steps": 4, "eval_every": 3}
    config, task = replace(TINY, layers=1, **sizes), replace(SMALL, evaluation=6)
    whole = recall.train(config, task, tmp_path / "whole", say=silent)
    assert 0 <= whole <= 1
    with monkeypatch.context() as patch:
        interrupt = after_step(0, lambda: signal.raise_signal(signal.SIGINT))
        patch.setattr(runlog.RunLog, "write", interrupt)
        assert recall.train(config, task, tmp_path / "parts", say=silent) is None
    assert checkpoint.load(tmp_path / "parts")[2]["step"] == 1
    with pytest.raises(InputError, match="holds a checkpoint"):
        recall.train(config, task, tmp_path / "parts", say=silent)
    with pytest.raises(InputError, match="was trained with .*'pairs': 6"):
        recall.train(config, replace(task, pairs=5), tmp_path / "parts", True, silent)
    assert recall.train(config, task, tmp_path / "parts", True, silent) == whole
    records = [runlog.read(tmp_path / name) for name in ("whole", "parts")]
    for record in records[0] + records[1]:
        record.pop("seconds", None)
    assert records[0] == records[1] and len(records[0]) == 6
    folders = {"nsa": tmp_path / "whole", "window": tmp_path / "parts"}
    recall.plot(folders, task, tmp_path / "recall.png")
    assert (tmp_path / "recall.png").read_bytes().startswith(b"\x89PNG")

    caches = ["--caches", str(tmp_path / "whole"), "--mode", "pynative", "--sequences"]
    assert recall.main([*caches, "6"]) == 0
    printed = capsys.readouterr().out
    assert f"{whole:.2%} of 24 answers right" in printed and ", 0 differ" in printed
    assert recall.main([*caches, "0"]) == "recall: --sequences must be at least 1, got 0"


def test_comparison(tmp_path, capsys):
    arguments = [str(train.CONFIGS / "tiny.json"), "--data", str(write_folder(tmp_path / "text"))]
    arguments += ["--out", str(tmp_path / "run"), "--mode", "pynative", "--set", "steps=1"]
    arguments += FEW
    assert compare.main([*arguments, "--attention", "nsa"]) == 0
    assert "x dense" not in capsys.readouterr().out
    assert compare.main(arguments).startswith("compare: --out")
    assert compare.main([*arguments, "--resume"]) == 0
    lines = capsys.readouterr().out.splitlines()[-4:]
    values = {line.split()[0]: float(line.split()[1]) for line in lines[:3]}
    assert [*values] == ["nsa", "window", "dense"]
    for line, value in zip(lines, values.values()):
        ratio = float(line.split(", ")[1].split()[0])
        assert ratio == pytest.approx(value / values["dense"], abs=2e-4)
    assert lines[3] == str(tmp_path / "run" / "compare.png")
    assert (tmp_path / "run" / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "run" / "nsa" / "selection.png").exists()


def test_comparison_at_several_rates(tmp_path, capsys):
    """Every attention is shown at the rate that suits it best."""
    arguments = [str(train.CONFIGS / "tiny.json"), "--data", str(write_folder(tmp_path / "text"))]
    arguments += ["--out", str(tmp_path / "run"), "--mode", "pynative", "--set", "steps=2"]
    arguments += FEW
    arguments += ["--attention", "window", "dense", "--rates", "0.01", "0.00001"]
    assert compare.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()[-7:]
    for name, (one, other, summary) in {
        "window": (*lines[:2], lines[4]),
        "dense": (*lines[2:4], lines[5]),
    }.items():
        values = {float(line.split()[2]): float(line.split()[3]) for line in (one, other)}
        assert [*values] == [0.01, 0.00001] and one.split()[:2] == [name, "rate"]
        best = min(values, key=values.get)
        assert best == 0.01
        assert summary.startswith(f"{name:8} {values[best]:.4f} bits per byte")
        assert f" at rate {best:g}, " in summary
    assert lines[6] == str(tmp_path / "run" / "compare.png")
    folders = sorted(path.name for path in (tmp_path / "run").iterdir() if path.is_dir())
    assert folders == ["dense-0.01", "dense-1e-05", "window-0.01", "window-1e-05"]
