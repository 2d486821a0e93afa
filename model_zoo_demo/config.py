"""Everything that decides what a run computes, as one dataclass and as JSON files."""

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from .data import encoded
from .errors import InputError

ATTENTIONS = ("nsa", "dense", "window")
DTYPES = ("float32", "bfloat16")
OPTIMIZERS = ("adamw", "sgd")
DOCUMENTS = ("apart", "joined")
DEVICES = ("", "CPU", "Ascend")


@dataclass(frozen=True)
class Config:
    """A model and its training. Lengths are in tokens, and a token is a byte."""

    # The model. The fields from compress_block_size to rope_theta are those of NSAConfig.
    attention: str = "nsa"  # nsa, dense, or window (dense attention over the last window_size)
    vocabulary: int = 256
    layers: int = 4
    width: int = 128
    heads: int = 4
    kv_heads: int = 1
    head_dim: int = 32
    feed_forward: int = 384
    compress_block_size: int = 16
    compress_stride: int = 8
    select_block_size: int = 32
    select_block_count: int = 8
    init_blocks: int = 1
    local_blocks: int = 2
    window_size: int = 128
    rope_theta: float = 10000.0
    dtype: str = "float32"  # or bfloat16: see `Layer`
    device: str = ""  # MindSpore's device_target; "" leaves it to MindSpore

    # The training.
    context: int = 512
    rows: int = 8  # sequences of one forward pass, over all workers
    accumulation: int = 1  # forward passes of one step
    # Whether documents that share a sequence see each other: joined takes a sequence for one
    # document.
    documents: str = "apart"
    steps: int = 1000
    optimizer: str = "adamw"  # or sgd, which has neither momentum nor decay
    learning_rate: float = 2e-3
    final_rate: float = 0.1  # the cosine ends at this share of learning_rate
    warmup: int = 50  # steps
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.1  # of matrices
    clip: float = 1.0  # largest norm of the gradient; 0 does not clip
    seed: int = 1

    # Reports and checkpoints of a run; changing these does not change the weights.
    eval_every: int = 100  # steps
    eval_bytes: int = 65536  # of validation text, from its beginning; 0 takes all of it
    checkpoint_every: int = 200  # steps
    sample_bytes: int = 300
    sample_prompt: str = ""  # how the sample at the end begins

    def __post_init__(self):
        for field in fields(self):
            value, kind = getattr(self, field.name), field.type
            if kind is float and type(value) is int:
                object.__setattr__(self, field.name, float(value))
            elif type(value) is not kind:
                raise InputError(
                    f"config: {field.name} must be {kind.__name__}, got {value!r} "
                    f"({type(value).__name__})"
                )
        for name, allowed in (
            ("attention", ATTENTIONS),
            ("dtype", DTYPES),
            ("optimizer", OPTIMIZERS),
            ("documents", DOCUMENTS),
            ("device", DEVICES),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"config: {name} must be one of {', '.join(filter(None, allowed))}, "
                    f"got {getattr(self, name)!r}"
                )
        try:
            encoded(self.sample_prompt)
        except UnicodeEncodeError:
            raise InputError(
                f"config: sample_prompt must be text, got {self.sample_prompt!r}"
            ) from None
        for name in POSITIVE:
            if not getattr(self, name) > 0:
                raise InputError(f"config: {name} must be above 0, got {getattr(self, name)}")
        for name in NOT_NEGATIVE:
            if not getattr(self, name) >= 0:
                raise InputError(f"config: {name} must not be negative, got {getattr(self, name)}")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"config: {name} must be in [0, 1), got {getattr(self, name)}")

    @property
    def tokens_per_step(self):
        """Tokens whose successor one step predicts."""
        return self.rows * self.context * self.accumulation

    def to_json(self):
        """The text of a config file."""
        return json.dumps(asdict(self), indent=2)


POSITIVE = (
    *("vocabulary", "layers", "width", "heads", "kv_heads", "head_dim", "feed_forward"),
    *("context", "rows", "accumulation", "steps", "learning_rate"),
    *("eval_every", "checkpoint_every"),
)
NOT_NEGATIVE = ("final_rate", "warmup", "weight_decay", "clip", "seed", "eval_bytes")
NOT_NEGATIVE += ("sample_bytes",)
# A run may be resumed with other values of these.
REPORTING = ("eval_every", "eval_bytes", "checkpoint_every", "sample_bytes", "sample_prompt")


def from_dict(values, source):
    """A `Config` of named values; `source` is who is blamed for a name that does not exist."""
    known = [field.name for field in fields(Config)]
    for name in values:
        if name not in known:
            raise InputError(
                f"{source}: no setting is called {name!r}; there are {', '.join(known)}"
            )
    return Config(**values)


def load(path):
    """The `Config` of a JSON file; what it does not name has its default."""
    try:
        values = json.loads(Path(path).read_text())
    except OSError as error:
        raise InputError(f"config {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"config {path}: not JSON: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"config {path}: must hold an object, got {type(values).__name__}")
    return from_dict(values, f"config {path}")


def add_assignments(parser):
    """The option for override()'s assignments."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a setting of the config; may be given several times",
    )


def override(config, assignments):
    """The config with settings from the command line, texts of the form name=value."""
    types = {field.name: field.type for field in fields(Config)}
    changes = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or name not in types:
            raise InputError(f"--set {text}: must be name=value, name one of {', '.join(types)}")
        try:
            changes[name] = types[name](value)
        except ValueError:
            raise InputError(f"--set {text}: {value!r} is not {types[name].__name__}") from None
    return replace(config, **changes)
