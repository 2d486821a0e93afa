"""Attention layers as `mindspore.nn.Cell`, and their parts."""

from .. import ops  # noqa: F401  (says first what the environment lacks)
from .cache import AttentionCache
from .compression import Compression
from .config import NSAConfig
from .dense_attention import DenseAttention
from .gates import Gates
from .native_sparse_attention import NativeSparseAttention
from .parallel.groups import ParallelGroups, WorkerGroup, parallel_groups
from .parallel.shards import ContextShards
from .parallel.weights import (
    HeadSplit,
    gather_parameters,
    shard_parameters,
    split_axis,
    unshard_parameters,
)
from .rope import RopeScaling
from .rotary import RotaryAngles, Rotate
from .selection_plots import plot_selected_blocks, plot_selection_quality
from .selection_quality import SelectionQuality

__all__ = [
    "AttentionCache",
    "Compression",
    "ContextShards",
    "DenseAttention",
    "Gates",
    "HeadSplit",
    "NSAConfig",
    "NativeSparseAttention",
    "ParallelGroups",
    "RopeScaling",
    "RotaryAngles",
    "Rotate",
    "SelectionQuality",
    "WorkerGroup",
    "gather_parameters",
    "parallel_groups",
    "plot_selected_blocks",
    "plot_selection_quality",
    "shard_parameters",
    "split_axis",
    "unshard_parameters",
]
