"""ThreadSanitizer over the native operators: `make tsan`, or python -m tests.native.tsan.

Before the operators run, a program with a planted race shows that races between the members of a
team are seen, and the same without it that the team raises no false alarm.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import workloads
from mindspore_nsa import _native
from tests.common.cases import make_case

from . import builds
from .casefile import write_cases

# The team.
SOURCES = [builds.ROOT / "cpu/engine/threads" / name for name in ("threads.cc", "workers.cc")]
SEEDS = range(150)
# Random cases are too short for several chunks, whose units wait for each other.
ATTENTIONS = (workloads.flash, workloads.selected, workloads.compress_attention)


def probe(folder):
    """{mode: finished process} of the program with a planted race, "race", and without, "clean"."""
    program = Path(folder) / "probe"
    sources = [Path(__file__).with_name("tsan_probe.cc"), *SOURCES]
    options = ["-std=c++17", "-O1", "-g", "-fopenmp", "-fsanitize=thread", f"-I{builds.ROOT}"]
    subprocess.run(["g++", *options, *sources, "-o", program], check=True)
    return {mode: builds.run_replay(builds.THREAD, program, mode) for mode in ("race", "clean")}


def long_cases():
    """Every attention and its gradient in several chunks, with float32 and with 16 bits."""
    for attention in ATTENTIONS:
        for dtype in ("float32", "bfloat16"):
            workload = attention(1200, dtype, heads=2, kv_heads=1, dim=16)
            forward = workload.forward
            yield forward
            yield workload.gradient(_native.run(forward.op, forward.inputs, forward.attrs))


def main():
    """Exit with 0 if no race is reported in any instruction set."""
    with tempfile.TemporaryDirectory() as folder:
        runs = probe(folder)
        if runs["clean"].returncode != 0:
            sys.exit(f"false report on a program without a race:\n{runs['clean'].stderr}")
        if "data race" not in runs["race"].stderr:
            sys.exit("the planted race was not reported")
        print("the planted race was reported; building takes minutes", flush=True)
        program = builds.compile_replay(builds.THREAD)
        cases = os.path.join(folder, "cases")
        calls = [*(make_case(seed) for seed in SEEDS), *long_cases()]
        write_cases(cases, calls)
        failed = False
        for isa in _native.available_isas():
            done = builds.run_replay(
                builds.THREAD, program, cases, os.path.join(folder, "out"), isa
            )
            verdict = "clean" if done.returncode == 0 else "FAILED"
            print(f"{isa}: {verdict}, {len(calls)} cases", flush=True)
            if done.returncode != 0:
                failed = True
                print(done.stdout + done.stderr[-20000:])
    sys.exit(failed)


if __name__ == "__main__":
    main()
