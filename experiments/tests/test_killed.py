"""A run that is killed again and again ends with the record and the arrays of one that was left in peace."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["some", "all"])
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="kills inside writes need /proc")
def test_kills_at_any_moment_and_inside_writes_change_no_bit(every, tmp_path):
    program = Path(__file__).parent / "killing.py"
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, program, tmp_path, *(["all"] if every else [])],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kills"] >= (24 if every else 3) and sorted(found["shared"]) == [0, 1]
