"""Where the time goes: MindSpore's Profiler around one training step."""

import csv
import tempfile
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import ops
from mindspore.profiler import ProfilerActivity, profile, tensorboard_trace_handler

from mindspore_nsa.nn import NativeSparseAttention, NSAConfig

layer = NativeSparseAttention(NSAConfig(64, num_heads=4, num_kv_heads=1, head_dim=16))
x = ms.Tensor(np.random.default_rng(0).standard_normal((1, 256, 64)), ms.float32)
step = ms.value_and_grad(lambda x: ops.square(layer(x)).mean(), 0, layer.trainable_params())
step(x)  # compiles
folder = tempfile.mkdtemp()
with profile(activities=[ProfilerActivity.CPU], on_trace_ready=tensorboard_trace_handler(folder)):
    step(x)
(path,) = Path(folder).rglob("cpu_op_type_info_*.csv")
with open(path, newline="") as file:
    rows = sorted(csv.DictReader(file), key=lambda row: -float(row["total_compute_time"]))
for row in rows[:5]:  # the types of one step; ASCEND_PROFILER_OUTPUT/trace_view.json has each call
    print(f"{row['op_type']}: {float(row['total_compute_time']):.2f} ms, {row['type_occurrences']}")
