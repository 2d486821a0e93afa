"""Programs that several workers run, started by msrun as a user starts them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def free_port():
    """A port that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def msrun(logs, workers, *command, **environment):
    """(exit code, what every worker printed) of a Python program and its arguments."""
    programs = Path(sys.executable).parent
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"  # msrun calls "python"
    done = subprocess.run(
        [
            *(programs / "msrun", f"--worker_num={workers}", f"--local_worker_num={workers}"),
            *("--join=True", f"--master_port={free_port()}", f"--log_dir={logs}"),
            *("--cluster_time_out=120", *map(str, command)),
        ],
        cwd=logs.parent,
        env=kept | {"GLOG_v": "3", "PATH": path, "OMP_NUM_THREADS": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    (logs / "msrun.log").write_bytes(done.stdout)
    logs = sorted(logs.glob("worker_*"), key=lambda p: int(p.stem.rpartition("_")[2]))
    return done.returncode, [log.read_text(errors="replace") for log in logs]
