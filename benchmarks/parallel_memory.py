"""Memory of workers that share a text: `python -m benchmarks.parallel_memory`.

Growth of VmHWM in a compiled step of one float32 layer, of several workers the largest, and
its ratio to that of one worker with the whole text: over what a worker holds when it has joined the
others, and over what it holds after a step of few tokens, which compiles, too.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from .isolate import RETURN_FREED_MEMORY

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"hidden_size": 512, "num_heads": 16, "num_kv_heads": 1, "head_dim": 64}
LIMITS = {2: 0.6, 4: 0.4}  # of one worker's growth
WARM_UP = 512  # tokens
COUNTED_FROM = {0: "joining", WARM_UP: "a short step"}


def measure(tokens, order, again, warm_up):
    """Bytes by which this worker grows in a step, after one of so many tokens."""
    import mindspore as ms
    import numpy as np

    from mindspore_nsa import nn

    from . import machine

    class Loss(ms.nn.Cell):
        """Mean square of the layer's output."""

        def __init__(self, layer):
            super().__init__(auto_prefix=False)
            self.layer = layer

        def construct(self, x, ends):
            return ms.ops.square(self.layer(x, ends)).mean()

    class Gradient(ms.nn.Cell):
        """Loss and all gradients, in one graph."""

        def __init__(self, loss):
            super().__init__(auto_prefix=False)
            self.loss, self.weights = loss, ms.ParameterTuple(loss.trainable_params())

        def construct(self, x, ends):
            return ms.value_and_grad(self.loss, 0, self.weights)(x, ends)

    ms.set_context(mode=ms.GRAPH_MODE)
    workers = int(os.environ.get("MS_WORKER_NUM", 1))
    if workers > 1:
        ms.communication.init()
    config = nn.NSAConfig(**SIZES)
    group = nn.parallel_groups(context=workers).context

    def steps(tokens):
        shards = nn.ContextShards(tokens, group, order)
        parallel = {"context": shards, "recompute_gather": again} if workers > 1 else {}
        step = Gradient(Loss(nn.NativeSparseAttention(config, **parallel)))
        rng, own = np.random.default_rng(group.rank), tokens // workers
        x = ms.Tensor(rng.standard_normal((own, config.hidden_size), np.float32))
        ends = shards.lists((tokens,), config) if again and workers > 1 else (tokens,)
        machine.reset_peak()
        loss, (_, slopes) = step(x, ends)
        loss.asnumpy(), slopes[-1].asnumpy()

    if warm_up:
        steps(warm_up)
    before = machine.status_bytes("VmRSS")
    steps(tokens)
    return machine.status_bytes("VmHWM") - before


def _free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def grown(workers, tokens, order="contiguous", again=False, warm_up=0):
    """Bytes of the largest of some workers, started by msrun where there are several."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "bytes")
        program = ["-m", "benchmarks.parallel_memory", "--measure", str(out)]
        program += ["--tokens", str(tokens), "--order", order, "--warm-up", str(warm_up)]
        program += ["--recompute-gather"] * again
        environment = os.environ | RETURN_FREED_MEMORY | {"GLOG_v": "3"}
        environment.pop("MALLOC_MMAP_MAX_", None)
        environment |= {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        start = [sys.executable]
        if workers > 1:
            start = [Path(sys.executable).parent / "msrun", f"--worker_num={workers}"]
            start += [f"--local_worker_num={workers}", f"--master_port={_free_port()}"]
            # msrun knows what "python" is, and no path of it.
            start += ["--join=True", f"--log_dir={folder}/logs", "python"]
            environment["MS_CPU_COMM_OP_TIMEOUT"] = "600"  # one may compile for longer than another
        done = subprocess.run(
            [*map(str, start), *program],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{workers} workers ended with {done.returncode}\n{done.stdout}")
        return max(json.loads(path.read_text()) for path in Path(folder).glob("bytes.*"))


def main(arguments=None):
    """Print a line for every number of workers; 1 if one takes more than its limit."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.parallel_memory", description=__doc__
    )
    parser.add_argument("--tokens", type=int, default=16384, help="of the text; default: 16384")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4], help="default: 2 4")
    parser.add_argument("--order", choices=("contiguous", "head_tail"), default="contiguous")
    parser.add_argument("--recompute-gather", action="store_true", help="gather keys again")
    parser.add_argument("--measure", metavar="PATH", help=argparse.SUPPRESS)
    parser.add_argument("--warm-up", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.measure:
        found = measure(args.tokens, args.order, args.recompute_gather, args.warm_up)
        Path(f"{args.measure}.{os.environ.get('RANK_ID', 0)}").write_text(json.dumps(found))
        return 0
    missed = False
    for warm_up, name in COUNTED_FROM.items():
        one = grown(1, args.tokens, warm_up=warm_up)
        print(f"from {name}: 1 worker {one / 1e6:.0f} MB", flush=True)
        for workers in args.workers:
            found = grown(workers, args.tokens, args.order, args.recompute_gather, warm_up)
            limit = LIMITS.get(workers, float("inf"))
            print(
                f"from {name}: {workers} workers {found / 1e6:.0f} MB, {found / one:.3f} of one"
                + f" (at most {limit})" * (workers in LIMITS),
                flush=True,
            )
            missed |= found > limit * one
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
