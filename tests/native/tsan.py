"""ThreadSanitizer over the native operators: `make tsan`, or python -m tests.native.tsan.

gcc's OpenMP runtime is not built for ThreadSanitizer: its barriers are invisible, and every
parallel region is reported as a race. So this form is built with clang, whose runtime tells the
sanitizer of its synchronisation through a tool library (libarcher, package libomp-dev). What
neither knows are the runtime's own internals, hence ignore_noninstrumented_modules. Before the
operators run, a program with a planted race shows that races are seen, and the same without it that
the runtime raises no false alarm.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks import workloads
from mindspore_nsa import _native
from tests.common.cases import make_case

from . import builds
from .casefile import write_cases

SEEDS = range(150)
# Random cases are too short for several chunks, whose units wait for each other.
ATTENTIONS = (workloads.flash, workloads.selected, workloads.compress_attention)


def archer():
    """Path of the tool library that belongs to clang's OpenMP runtime."""
    question = [builds.CLANG, "-print-resource-dir"]  # .../llvm-14/lib/clang/14.0.6
    folder = subprocess.run(question, capture_output=True, text=True, check=True).stdout.strip()
    path = Path(folder).resolve().parents[1] / "libarcher.so"
    if not path.exists():
        sys.exit("libarcher.so is missing: apt-get install clang libomp-dev")
    return path


def probe(build, folder):
    """Whether a race is reported with and without one planted."""
    program = Path(folder) / "probe"
    source = Path(__file__).with_name("tsan_probe.cc")
    options = ["-O1", "-g", "-fopenmp", "-fsanitize=thread"]
    subprocess.run([builds.CLANG, *options, source, "-o", program], check=True)
    runs = {mode: builds.run_replay(build, program, mode) for mode in ("race", "clean")}
    if runs["clean"].returncode != 0:
        sys.exit(f"false report on a program without a race:\n{runs['clean'].stderr}")
    if "data race" not in runs["race"].stderr:
        sys.exit("the planted race was not reported")


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
    if shutil.which(builds.CLANG) is None:
        sys.exit("clang++ is missing: apt-get install clang libomp-dev")
    build = replace(
        builds.THREAD,
        environment=(
            ("OMP_TOOL_LIBRARIES", str(archer())),
            ("TSAN_OPTIONS", "ignore_noninstrumented_modules=1 halt_on_error=0 exitcode=66"),
        ),
    )
    with tempfile.TemporaryDirectory() as folder:
        probe(build, folder)
        print("the planted race was reported; building takes minutes", flush=True)
        program = builds.compile_replay(build)
        cases = os.path.join(folder, "cases")
        calls = [*(make_case(seed) for seed in SEEDS), *long_cases()]
        write_cases(cases, calls)
        failed = False
        for isa in _native.available_isas():
            done = builds.run_replay(build, program, cases, os.path.join(folder, "out"), isa)
            verdict = "clean" if done.returncode == 0 else "FAILED"
            print(f"{isa}: {verdict}, {len(calls)} cases", flush=True)
            if done.returncode != 0:
                failed = True
                print(done.stdout + done.stderr[-20000:])
    sys.exit(failed)


if __name__ == "__main__":
    main()
