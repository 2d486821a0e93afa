"""Cases of whole training steps of a language model: NSA against dense attention."""

from dataclasses import dataclass

import mindspore as ms
import numpy as np

from model_zoo_demo.config import Config
from model_zoo_demo.model import Loss, Model
from model_zoo_demo.optimizer import Step

from . import check, timing, workloads
from .result import Result

CONTEXTS = (2048, 4096, 8192, 32768)
# Tokens of all rounds of a case, but for three rounds at least: short steps vary more.
ROUNDS_TOKENS = 1 << 15
# Selection and window are the paper's; a group of 4 heads shares keys and values.
SIZES = {
    "layers": 2,
    "width": 256,
    "heads": 4,
    "kv_heads": 1,
    "head_dim": 64,
    "feed_forward": 768,
    "compress_block_size": workloads.L,
    "compress_stride": workloads.S,
    "select_block_size": workloads.SELECT,
    "select_block_count": workloads.COUNT,
    "window_size": 512,
}
OPERATORS = (
    workloads.compress,
    workloads.compress_attention,
    workloads.selected,
    workloads.flash,
)


@dataclass(frozen=True)
class TrainingCase:
    """A step on one sequence: forward, backward, AdamW."""

    name: str
    tokens: int
    quick_tokens: int

    kind = "training"
    operator = "NativeSparseAttention"
    dtype = "float32"
    direction = "both"

    def problem(self):
        """Why one of the layer's operators cannot be measured, or None."""
        return check.first_problem(OPERATORS, self.dtype, self.direction)

    def run(self, settings):
        """A `Result`."""
        ms.set_context(mode=ms.GRAPH_MODE)
        tokens = self.quick_tokens if settings.quick else self.tokens
        functions = {name: _step(name, tokens) for name in ("nsa", "dense")}
        rounds = 3 if settings.quick else max(3, ROUNDS_TOKENS // tokens)
        times = timing.interleave(functions, rounds=rounds, budget=0.0)
        seconds = timing.median(times["nsa"])
        return Result.of(
            self,
            tokens=tokens,
            shape=f"S={tokens} layers={SIZES['layers']} width={SIZES['width']}",
            seconds=seconds,
            rate=tokens / seconds,
            unit="tokens/s",
            peers={"dense": timing.median_ratio(times["dense"], times["nsa"])},
        )


def _step(attention, tokens):
    """A function that trains a model on the same sequence again."""
    config = Config(attention=attention, context=tokens, rows=1, **SIZES)
    model = Model(config)
    step = Step(Loss(model), model.matrices(), config)
    drawn = np.random.default_rng(1).integers(0, 256, tokens + 1).astype(np.int32)
    batch = drawn[:-1], drawn[1:], np.array([tokens], np.int64)
    return lambda: step([batch], 0)


def training_cases():
    """Every length of the context."""
    return [TrainingCase(f"training_{tokens}", tokens, tokens // 8) for tokens in CONTEXTS]
