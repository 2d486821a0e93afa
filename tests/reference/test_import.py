import subprocess
import sys


def test_the_reference_needs_neither_mindspore_nor_the_native_library():
    code = (
        "import sys, mindspore_nsa.reference\n"
        "loaded = {'mindspore', 'mindspore_nsa._native'} & set(sys.modules)\n"
        "sys.exit(f'imported {loaded}' if loaded else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
