"""`python -m mindspore_nsa.check` where MindSpore's own Ascend backend calls the kernels."""

from mindspore_nsa.check import CHECKS, LIMITS

from .judge import run


def test_everything_agrees(tmp_path):
    done = run("-m", "mindspore_nsa.check", "--device", "Ascend", "--graph", folder=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    agreed = {tuple(line[:2]) for line in lines if "agrees" in line[2:]}
    assert agreed == {(check.__name__, dtype) for check in CHECKS for dtype in LIMITS}
    assert ["device", "Ascend"] in lines and lines[-1] == ["everything", "agrees"]
