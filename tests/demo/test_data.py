"""Text becomes documents, two corpora and batches; what is not text is refused in words."""

import os
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from model_zoo_demo import data
from model_zoo_demo.data import user_files
from model_zoo_demo.errors import InputError

from .text import document


def corpus(*texts):
    return data.join(texts)


def test_documents_stand_one_after_another():
    joined = corpus(b"ab", b"", b"c")
    assert joined.tokens.tobytes() == b"\0ab\0c"
    assert joined.starts.tolist() == [0, 3]
    assert len(joined) == 5 and len(corpus()) == 0


def test_batch():
    joined = corpus(b"abcd", b"ef", b"g", b"hijkl")  # .abcd.ef.g.hijkl
    tokens, targets, ends = joined.batch([1, 6], 6)
    assert bytes(tokens.astype(np.uint8)) == b"abcd\0e" + b"ef\0g\0h"
    assert bytes(targets.astype(np.uint8)) == b"bcd\0ef" + b"f\0g\0hi"
    # A document's start begins a segment, and so does a piece, wherever it begins.
    assert [*dict.fromkeys(ends.tolist())] == [4, 6, 8, 10, 12]
    assert tokens.dtype == targets.dtype == np.int32 and ends.dtype == np.int64
    assert len(ends) == 2 * (1 + joined.most_starts(6))
    assert joined.batch([1], 6, 9)[2].tolist() == [4, 6, 6, 6, 6, 6, 6, 6, 6]
    # Without lists the same tokens, and the pieces as a constant.
    pieces = joined.batch([1, 6], 6, 0)
    assert (pieces[0] == tokens).all() and (pieces[1] == targets).all() and pieces[2] == (6, 12)


@pytest.mark.parametrize("context", [1, 2, 3, 7, 50])
def test_most_starts_is_the_largest_number_there_is(context):
    rng = np.random.default_rng(context)
    joined = corpus(*(b"x" * n for n in rng.integers(1, 9, 40)))
    starts = set(joined.starts.tolist())
    inside = [
        sum(place in starts for place in range(position + 1, position + context))
        for position in range(len(joined) - context)
    ]
    assert joined.most_starts(context) == max(inside)


def test_segments_of_random_batches():
    joined = corpus(*(document(i, 5 + 13 * i) for i in range(15)))
    rng = np.random.default_rng(0)
    for _ in range(50):
        positions = joined.draw(rng, 3, 32)
        tokens, targets, ends = joined.batch(positions, 32)
        assert (np.diff(ends) >= 0).all() and ends[-1] == 96
        begins = {0, *ends[:-1].tolist()}
        expected = {*np.flatnonzero(tokens == data.START).tolist(), 0, 32, 64}
        assert begins - {96} == expected
        assert (targets.reshape(3, 32)[:, :-1] == tokens.reshape(3, 32)[:, 1:]).all()


def test_pieces_have_a_token_after_them():
    joined = corpus(b"abcdefghi")  # 10 tokens
    positions = joined.draw(np.random.default_rng(0), 100, 8)
    assert {*positions.tolist()} == {0, 1}
    assert joined.batch([1], 8)[1].astype(np.uint8).tobytes() == b"bcdefghi"


def test_order():
    joined = corpus(b"x" * 99)  # 100 tokens
    assert joined.in_order(2, 10, 0).tolist() == [[0, 10], [20, 30], [40, 50], [60, 70]]
    assert joined.in_order(2, 10, 41).tolist() == [[0, 10], [20, 30]]
    assert joined.in_order(2, 10, 5).tolist() == [[0, 10]]


def test_split_by_name():
    names = [f"package/module{i}.py" for i in range(2000)]
    chosen = {name for name in names if data.is_validation(name, 0.05)}
    assert 60 < len(chosen) < 140
    files = [(name, name.encode()) for name in names]
    for some in (files, files[::-1], files[500:]):
        training, validation = data.split(some)
        in_validation = set(validation.tokens.tobytes().decode().split("\0")) - {""}
        assert in_validation == chosen & {name for name, _ in some}
        assert len(training.starts) + len(validation.starts) == len(some)


def test_split_of_one_file():
    text = document("one", 1000)
    training, validation = data.split([("one.txt", text)])
    assert (training.tokens.tobytes() + validation.tokens[1:].tobytes())[1:] == text
    assert len(validation) == 51


def test_split_with_too_little_in_one_side():
    name = next(f"{i}.py" for i in range(1000) if data.is_validation(f"{i}.py", 0.05))
    files = [("long.py", b"x" * 1000), (name, b"y" * 10)]
    assert data.split(files, 10)[1].tokens.tobytes() == b"\0" + b"y" * 10
    assert data.split(files, 11)[1].tokens.tobytes() == b"\0" + b"x" * 50


def test_standard_library():
    files = dict(data.standard_library())
    root = Path(sysconfig.get_path("stdlib"))
    for name in ("json/decoder.py", "textwrap.py", "email/message.py"):
        assert files[name] == (root / name).read_bytes()
    assert not any("site-packages" in name for name in files)
    training, validation = data.load(None, 2048, 8)
    assert len(training) > 5e6 and len(validation) > 200e3
    assert [*files] == [name for name, _ in data.standard_library()]


def test_what_is_not_of_the_library(tmp_path, monkeypatch):
    texts = ("b.py", "a/c.py", "a/test.py")
    others = ("test/d.py", "a/tests/d.py", "a/idle_test/d.py", "site-packages/d.py")
    others += ("dist-packages/d.py", "a/__pycache__/d.py", "a/notes.txt")
    for name in texts + others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "empty.py").touch()
    (tmp_path / "binary.py").write_bytes(b"\0")
    monkeypatch.setattr(data.sysconfig, "get_path", lambda _: str(tmp_path))
    assert sorted(data.standard_library()) == sorted((n, n.encode()) for n in texts)


def test_digest_tells_corpora_apart():
    assert corpus(b"ab", b"c").digest() == corpus(b"ab", b"c").digest()
    assert corpus(b"ab", b"c").digest() != corpus(b"a", b"bc").digest()


def test_files_and_folders(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "b.txt").write_bytes(b"bb")
    (tmp_path / "deep" / "a.txt").write_bytes(b"aa\xe9 latin")
    (tmp_path / "one.txt").write_bytes(b"one")
    found = data.user_files([str(tmp_path / "deep"), str(tmp_path / "one.txt")])
    assert found == [("a.txt", b"aa\xe9 latin"), ("er/b.txt", b"bb"), ("one.txt", b"one")]


def test_names_that_are_not_utf8(tmp_path):
    """A file system takes any bytes; what is printed of them is text."""
    folder = os.fsencode(tmp_path)
    for name, content in ((b"caf\xe9.txt", b"text"), (b"em\xe9pty", b"")):
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(content)
    said = []
    ((name, content),) = user_files([tmp_path], said.append)
    assert content == b"text" and data.is_validation(name, 1.0) and "em\ufffdpty" in said[0]
    assert said[0].encode()


def test_what_is_not_text_is_left_out_of_folders_and_counted(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"text")
    (tmp_path / "b.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\r")
    (tmp_path / "empty").write_bytes(b"")
    said = []
    assert data.user_files([tmp_path], said.append) == [("a.txt", b"text")]
    assert said == [f"{tmp_path}: 2 empty or binary files left out, such as {tmp_path / 'b.png'}"]


def test_text_has_few_control_bytes():
    assert data.is_text(b"\t\n\f\r\x1b" * 20) and data.is_text("caf\u00e9".encode())
    assert data.is_text(b"x" * 99 + b"\x01") and not data.is_text(b"x" * 98 + b"\x01\x02")
    assert not data.is_text(b"x" * 999 + b"\0")


@pytest.mark.parametrize(
    "content, reason",
    [(b"", "is empty"), (b"a\0b", "is binary"), (bytes(range(1, 32)) * 9, "is binary")],
)
def test_files_that_cannot_be_used(tmp_path, content, reason):
    path = tmp_path / "input.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"--data: {path} {reason}"):
        data.user_files([path])
    with pytest.raises(InputError, match=rf"--data: no text in {tmp_path} \(1 files\)"):
        data.user_files([tmp_path], lambda _: None)


@pytest.mark.timeout(60)
def test_a_named_pipe(tmp_path):
    """Reading it would wait for ever; in a folder it is passed over."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(InputError) as caught:
            user_files([path])
        assert str(caught.value) == (
            f"--data: {path} is not a file or folder; save its text to a file"
        )
    (tmp_path / "text.txt").write_text("some text")
    assert user_files([tmp_path]) == [("text.txt", b"some text")]


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="nothing.txt does not exist"):
        data.user_files([tmp_path / "nothing.txt"])
    (tmp_path / "a.txt").write_bytes(b"text")

    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    for path in (tmp_path, tmp_path / "a.txt"):
        with pytest.raises(InputError, match="cannot read .*a.txt: Permission denied"):
            data.user_files([path])


def test_folders_that_cannot_be_read(tmp_path, monkeypatch):
    def walk(root, onerror):
        onerror(PermissionError(13, "Permission denied", f"{root}/closed"))
        return []

    monkeypatch.setattr(data.os, "walk", walk)
    with pytest.raises(InputError, match="cannot read .*/closed: Permission denied"):
        data.user_files([tmp_path])


def test_too_little_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"x" * 1000)
    with pytest.raises(InputError, match="51 bytes of validation text, and 129 are needed"):
        data.load([tmp_path], 64, 2)
