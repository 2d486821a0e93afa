"""`python -m mindspore_nsa.check` where MindSpore's own Ascend backend calls the kernels."""

from mindspore_nsa.check import CHECKS

from .judge import run


def test_everything_agrees(tmp_path):
    done = run("-m", "mindspore_nsa.check", "--device", "Ascend", "--graph", folder=tmp_path)
    judge_check(done)


def judge_check(done):
    """Each operator agrees in each dtype that Ascend has."""
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    agreed = {tuple(line[:2]) for line in lines if "agrees" in line[2:]}
    assert agreed == {(f.__name__, dtype) for f in CHECKS for dtype in ("float16", "bfloat16")}
    assert ["device", "Ascend"] in lines
    results = 2 * sum(map(len, CHECKS.values()))
    assert " ".join(lines[-1]).endswith(f"{results} results agree, 0 do not")
