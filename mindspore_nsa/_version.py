"""The version of the package, kept here alone."""

__version__ = "0.4.0.dev0"


def commit() -> str:
    """Commit of the sources that the package was built from, a str; "unknown" where none tells."""
    import subprocess
    from pathlib import Path

    folder = Path(__file__).resolve().parent
    # Written into wheels by setup.py.
    built = folder / "_commit.txt"
    if built.exists():
        return built.read_text().strip()
    if not (folder.parent / "setup.py").exists():
        return "unknown"
    # By itself git gives as many digits as the clone's number of objects needs.
    command = ["git", "-C", str(folder), "describe"]
    command += ["--always", "--dirty", "--exclude=*", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"
