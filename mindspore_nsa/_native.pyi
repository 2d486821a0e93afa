# Written by tools/generate_calls.py from binding/: run `make generate`.
# fmt: off
from collections.abc import Sequence
from typing import Any

def ascend_operators() -> list[str]:
    """Names of the operators with Ascend kernels."""

def ascend_signature(op: str, target: str = "ascend", function: str = "") -> list[Any]:
    """The arguments of an operator's aclnn function, in its order. source: what in schema(op) an
    argument is, and index its place there; None: it is absent or its default. ValueError,
    which names the target and the function, or that of the operator, for an operator without
    an Ascend kernel."""

def ascend_type(op: str) -> str:
    """The type of an operator's Ascend kernel, after which its aclnn function is named."""

def available_isas() -> list[str]:
    """Instruction sets that this build has and this machine runs, best first."""

def call_key(
    target: Any, arguments: tuple[Any, ...], tensor: type[Any], dtypes: tuple[Any, ...], read: int,
) -> Any:
    """What two calls that are planned alike have in common, hashable: None, ints, strs, floats,
    bools, tuples and lists of ints, and of Tensors the shape and the place of the dtype among
    these. None where something else is among the arguments, or a Tensor at one of the places
    `read`, bits."""

def compressed_rows(actual_seq_len: Any, compress_block_size: Any, compress_stride: Any) -> int:
    """Rows of nsa_compress: the windows of all segments."""

def compressed_seq_len(
    actual_seq_len: Any, compress_block_size: Any, compress_stride: Any,
) -> tuple[Any, ...]:
    """Prefix sums of the windows per segment."""

def infer(
    op: str, inputs: Sequence[Any], attrs: dict[str, Any], target: str = "cpu", function: str = "",
) -> list[Any]:
    """Checks a call and returns its outputs as (dtype name, shape). An input is None or (dtype
    name or None, shape or None, values or None). Errors name the function, or that of the
    operator."""

def isa() -> str:
    """The instruction set in use."""

def last_failure() -> tuple[str, str]:
    """Why a Custom of this library failed last: a code ('none', 'written cast' or 'other') and
    the text of its error, to which MindSpore adds."""

def num_threads() -> int:
    """Threads that a kernel uses."""

def op_names() -> list[str]:
    """Names of the native operators."""

def open_ascend_twin(libraries: Sequence[str]) -> None:
    """Opens the libraries of target 'ascend_twin', the operators' own last."""

def reset_scratch_high_water() -> None:
    ...

def rules_called() -> int:
    """How often the rules of an operator have been called in this process."""

def run(
    op: str, inputs: Sequence[Any], attrs: dict[str, Any], num_threads: Any = 0,
    target: str = "cpu",
) -> list[Any]:
    """Runs a native operator on NumPy arrays and returns its outputs. An input is None, an
    array, or ("bfloat16", uint16 array); bfloat16 outputs come back likewise. target: 'cpu'
    or 'ascend_twin'."""

def schema(op: str) -> dict[str, Any]:
    """Inputs, attributes and outputs of an operator."""

def scratch_high_water() -> int:
    """Most bytes of scratch held at once since the last reset."""

def selection_blocks(
    cmp_len: int, query_end: int, compress_block_size: int, compress_stride: int,
    select_block_size: int, causal: bool, importance: str,
) -> int:
    """Selection blocks of one segment of cmp_len compressed tokens; query_end is its offset plus
    its queries."""

def set_isa(name: str) -> None:
    ...

def set_num_threads(threads: Any) -> None:
    """Threads that every kernel uses from now on; 0: as many as OpenMP and the affinity of the
    process give."""
