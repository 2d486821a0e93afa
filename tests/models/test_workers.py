"""Two workers that share a text, or the heads, compute what one computes."""

from pathlib import Path

from tests.nn.parallel.starts import msrun


def test_two_workers(tmp_path):
    code, printed = msrun(tmp_path / "logs", 2, Path(__file__).with_name("workers.py"))
    assert code == 0, "".join(text[-4000:] for text in printed)
    assert all("all equal" in text for text in printed)
