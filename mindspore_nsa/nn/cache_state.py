"""The state of a cache: the sizes that it was made for, and the lengths of its rows."""

from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor

from .cache_arrays import check_state
from .cache_known import new_state
from .cache_memory import to_be_written
from .config import NSAConfig

# Positions of the tensors in a cache; a dense layer's has no last one. They are few because a graph
# pays for each of its arguments.
STATE, SELECTED, OTHERS = range(3)

# Every row's state begins with the sizes that a cache was made for, which the shapes of its Tensors
# do not tell apart, and what the angles by which its keys are turned follow from, as the bits of
# float64; a dense layer's has 0 for those of other branches. Then come the dtype of keys and
# values, because mixed precision casts Tensors on their way into a Cell and what is written to the
# copies is lost, the `LayerNumber` whose tokens are in the row (0: of any), the length of the
# row, and the most tokens that it has had since it was empty. As in infer/nsa_cache_step.h.
ANGLES = ("rope_theta", "rope_factor", "rope_low", "rope_high")
SIZES = (
    *("head_dim", "value_head_dim", *ANGLES),
    *("window_size", "compress_block_size", "compress_stride", "shared_kv"),
)
DENSE_SIZES = 6
DTYPE, LAYER = len(SIZES), len(SIZES) + 1
HEADER = LAYER + 1

# infer/op.h has the same numbers.
DTYPES = {42: mindspore.float16, 43: mindspore.float32, 45: mindspore.bfloat16}

# A size of no layer, in what a file says.
_MOST = 2**40

DENSE_TENSORS, SPARSE_TENSORS = OTHERS, OTHERS + 1

# Tokens that a row can go back although its rings have been full.
ROLLBACK = 64


def angles_of(config: NSAConfig) -> dict[Any, Any]:
    """Return the sizes that decide rotary angles, by the names of `ANGLES`."""
    scaling = config.rope_scaling
    if scaling is None:
        return dict(zip(ANGLES, (config.rope_theta, 1.0, 0.0, 1.0)))
    ramp = scaling.ramp(config.head_dim, config.rope_theta)
    return dict(zip(ANGLES, (config.rope_theta, scaling.factor, *ramp)))


def sizes_of(config: NSAConfig, sparse: bool) -> tuple[Any, ...]:
    """Return the first numbers of the state of a layer's cache."""
    known = SIZES if sparse else SIZES[:DENSE_SIZES]
    angles = angles_of(config)
    sizes = {name: int(getattr(config, name)) for name in known if name not in ANGLES}
    sizes.update((name, int(np.float64(value).view(np.int64))) for name, value in angles.items())
    return tuple(sizes.get(name, 0) for name in SIZES)


def size_text(name: str, value: Any) -> str:
    """How an error writes a size, of which the state holds an angle as the bits of a double."""
    if name in ANGLES:
        value = f"{np.int64(value).view(np.float64):.9g}"
    return f"{name} {value}"


def state_of(sizes: Any, dtype: Any, lengths: Any) -> Any:
    """States of rows of these lengths, a Tensor [B, HEADER + 2]."""
    number = next(number for number, known in DTYPES.items() if known == dtype)
    rows = [[*sizes, number, 0, length, length] for length in lengths]
    return state_tensor(np.array(rows, np.int64))


def state_tensor(values: Any) -> Tensor:
    """States of rows where the device has its memory."""
    return new_state(to_be_written(Tensor(values)), values)


def ring_places(
    capacity: int, window_size: int, compress_block_size: int, shared: Any
) -> tuple[Any, ...]:
    """Places of the window's and of the compression's ring; shared tokens need no first one."""
    sizes = (compress_block_size,) if shared else (window_size, compress_block_size)
    return tuple(min(capacity, size + ROLLBACK) for size in sizes)


def branch_places(capacity: int, sizes: Any) -> tuple[Any, ...]:
    """Places of what a sparse layer's last Tensor holds: compressed tokens, rings."""
    l, s = sizes["compress_block_size"], sizes["compress_stride"]  # noqa: E741
    rings = ring_places(capacity, sizes["window_size"], l, sizes["shared_kv"])
    return max(1, (capacity - l) // s + 1), *rings


def checked_state(state: Any) -> Any:
    """The states of rows from a file, or the error of what are none."""
    check_state(state, HEADER + 2, LAYER)
    sizes = dict(zip(SIZES, state[0].tolist()))
    sparse = SIZES[DENSE_SIZES:-1]
    lowest = dict.fromkeys(("head_dim", "value_head_dim"), 1)
    lowest.update((name, int(any(sizes[other] for other in sparse))) for name in sparse)
    wrong = [name for name, least in lowest.items() if not least <= sizes[name] <= _MOST]
    if wrong or int(state[0, DTYPE]) not in DTYPES:
        raise ValueError(
            "AttentionCache.from_dict: parts['state'] must be that of a cache, got "
            f"{f'{wrong[0]} {sizes[wrong[0]]}' if wrong else f'dtype {state[0, DTYPE]}'}"
        )
    return state
