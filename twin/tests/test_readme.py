"""The program of the README, by its command: it prints and is refused as the page says."""

import re

from .builds import ROOT
from .programs import python

PAGE = (ROOT / "twin" / "README.md").read_text()
(PROGRAM,) = re.findall(r"^```cpp\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
OUTPUT, ERROR = re.findall(r"^```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
(COMMAND,) = re.findall(r"^python (-m ascendc_twin run .*)$", PAGE, re.MULTILINE)


def test_it_prints_what_the_page_says(tmp_path):
    (tmp_path / "main.cpp").write_text(PROGRAM)
    for seed in range(3):
        done = python(*COMMAND.split(), cwd=tmp_path, ASCENDC_TWIN_SEED=str(seed))
        assert (done.returncode, done.stdout) == (0, OUTPUT), done.stderr


def test_the_error_is_the_one_of_the_page(tmp_path):
    without = PROGRAM
    for line in ("  in.EnQue(a);\n", "  a = in.DeQue<float>();\n"):
        assert without.count(line) == 1
        without = without.replace(line, "")
    (tmp_path / "main.cpp").write_text(without)
    done = python(*COMMAND.split(), cwd=tmp_path)
    assert done.returncode == 1
    assert " ".join(ERROR.split()) in " ".join((done.stdout + done.stderr).split())


def test_arguments_flags_and_status(tmp_path):
    """They are the program's, CXXFLAGS the compiler's, and what either ends with is the status."""
    source = tmp_path / "main.cpp"
    text = "#include <cstdio>\nint main(int n, char** a) { std::puts(a[n - 1]); return N; }\n"
    source.write_text(text)
    done = python("-m", "ascendc_twin", "run", source, "--x", "last one", CXXFLAGS="-DN=7")
    assert (done.returncode, done.stdout) == (7, "last one\n"), done.stderr
    refused = python("-m", "ascendc_twin", "run", source)
    assert refused.returncode == 1 and not refused.stdout and "N" in refused.stderr
    none = python("-m", "ascendc_twin", "run", source, CXX="no-such-compiler")
    assert none.returncode == 1 and none.stderr == "no-such-compiler: No such file or directory\n"
    source.write_text("int main() { __builtin_trap(); }\n")
    assert python("-m", "ascendc_twin", "run", source).returncode > 128
