"""Short trainings that several tests share."""

import os
from pathlib import Path

from model_zoo_demo import config as configs
from model_zoo_demo import runlog, train
from tests.demo.text import write_folder

ROOT = Path(__file__).resolve().parents[2]
TINY = configs.load(train.CONFIGS / "tiny.json")


def silent(text):
    pass


def tiny(out, text, *settings, **more):
    """Losses of a tiny training on the text of a folder."""
    train.train(configs.override(TINY, settings), out, [text], say=silent, **more)
    return [record["loss"] for record in runlog.read(out) if "loss" in record]


def environment(**more):
    """For programs of this folder that run on their own: the source tree comes last."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    return kept | {"GLOG_v": "3"} | more


__all__ = ["ROOT", "TINY", "environment", "silent", "tiny", "write_folder"]
