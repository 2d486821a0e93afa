"""Settings: files, the command line, and what is refused."""

import pytest

from model_zoo_demo import config as configs
from model_zoo_demo.config import Config
from model_zoo_demo.errors import InputError


def test_text_of_a_config(tmp_path):
    config = Config(attention="window", clip=0.5, seed=7)
    (tmp_path / "config.json").write_text(config.to_json())
    assert configs.load(tmp_path / "config.json") == config


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "not JSON"),
        ("[]", "must hold an object, got list"),
        ('{"layer": 2}', "no setting is called 'layer'; there are attention, vocabulary, layers"),
        ('{"layers": 2.5}', r"layers must be int, got 2.5 \(float\)"),
        ('{"layers": true}', r"layers must be int, got True \(bool\)"),
        ('{"attention": "full"}', "attention must be one of nsa, dense, window, got 'full'"),
        ('{"dtype": "float16"}', "dtype must be one of float32, bfloat16, got 'float16'"),
        ('{"optimizer": "adam"}', "optimizer must be one of adamw, sgd, got 'adam'"),
        ('{"rows": 0}', "rows must be above 0, got 0"),
        ('{"learning_rate": -1}', "learning_rate must be above 0, got -1"),
        ('{"clip": -0.5}', "clip must not be negative, got -0.5"),
        ('{"documents": "together"}', "documents must be one of apart, joined, got 'together'"),
        ('{"device": "TPU"}', "device must be one of CPU, Ascend, got 'TPU'"),
    ],
)
def test_refused(tmp_path, text, message):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError, match=f"config.*{message}"):
        configs.load(path)


ABOVE_ZERO = (
    "vocabulary layers width heads kv_heads head_dim feed_forward context rows accumulation steps "
    "learning_rate eval_every checkpoint_every"
).split()
FROM_ZERO = "final_rate warmup weight_decay clip seed eval_bytes sample_bytes beta1 beta2".split()


@pytest.mark.parametrize("name", ABOVE_ZERO)
def test_zero_is_too_little(name):
    with pytest.raises(InputError, match=f"config: {name} must be above 0, got 0"):
        Config(**{name: 0})


@pytest.mark.parametrize("name", FROM_ZERO)
def test_zero_is_the_least(name):
    assert getattr(Config(**{name: 0}), name) == 0
    with pytest.raises(InputError, match=rf"config: {name} must .*, got -1"):
        Config(**{name: -1})


@pytest.mark.parametrize("name", ["beta1", "beta2"])
def test_one_is_too_much(name):
    with pytest.raises(InputError, match=rf"config: {name} must be in \[0, 1\), got 1.0"):
        Config(**{name: 1})


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="nothing.json: No such file"):
        configs.load(tmp_path / "nothing.json")


def test_override():
    changed = configs.override(Config(), ["layers=3", "learning_rate=1e-4", "attention=dense"])
    assert changed == Config(layers=3, learning_rate=1e-4, attention="dense")
    with pytest.raises(InputError, match="--set layers=2.5: '2.5' is not int"):
        configs.override(Config(), ["layers=2.5"])
    for text in ("layers", "layer=3"):
        with pytest.raises(InputError, match=f"--set {text}: must be name=value, name one of"):
            configs.override(Config(), [text])
