"""Checkpoints that are either the old one or the new one, whatever happens in between."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import mindspore as ms
from mindspore import Tensor

from . import config as configs
from .errors import InputError

NAME = "checkpoint.ckpt"
_ABOUT = "about_the_run"


def write_atomically(path, write):
    """Have `write(temporary path)` make a file, then put it in the place of `path`."""
    path = Path(path)
    temporary = path.with_name(f"tmp-{os.getpid()}-{path.name}")
    try:
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def save(folder, parameters, config, **about):
    """Write parameters, the config and what else a run must know of itself (numbers, texts)."""
    text = json.dumps({"config": asdict(config), **about})
    values = [{"name": p.name, "data": p} for p in parameters]

    def write(path):
        ms.save_checkpoint(values, str(path), append_dict={_ABOUT: text})
        path.chmod(0o644)  # MindSpore makes it read-only

    write_atomically(Path(folder, NAME), write)


def load(folder):
    """(name -> array, config, dictionary of what else was saved)."""
    path = Path(folder, NAME)
    if not path.is_file():
        raise InputError(f"no checkpoint in {folder}: {path} does not exist")
    try:
        found = ms.load_checkpoint(str(path))
        about = json.loads(found.pop(_ABOUT))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a checkpoint of this demo: {error}") from None
    config = configs.from_dict(about.pop("config"), str(path))
    return {name: value.asnumpy() for name, value in found.items()}, config, about


def restore(parameters, arrays, source):
    """Set parameters from what `load` gave."""
    for parameter in parameters:
        if parameter.name not in arrays:
            raise InputError(f"{source}: the checkpoint has no {parameter.name}")
        array = arrays[parameter.name]
        if array.shape != tuple(parameter.shape):
            raise InputError(
                f"{source}: {parameter.name} must be {tuple(parameter.shape)}, got {array.shape}"
            )
        parameter.set_data(Tensor(array))


def same_run(config, saved, source):
    """Fail where a setting differs that changes the weights."""
    for name, value in asdict(config).items():
        before = getattr(saved, name)
        if value != before and name not in configs.REPORTING:
            text = f"--resume: {source} was trained with {name}={before}, not {value}"
            if name == "steps":
                text += (
                    "; the learning rate falls over all steps, so more of them are another run: "
                    "train anew with --out another folder, or resume with the old number"
                )
            raise InputError(text)
