"""What the README tells a newcomer to do with a test of their own, done."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from behaviour.home import PROJECT, Home

pytestmark = [pytest.mark.e2e]


def test_your_own_test(home: Home) -> None:
    chapter = (PROJECT / "README.md").read_text().split("## Your own test")[1].split("\n## ")[0]
    (file,) = re.findall(r"```yaml\n(.*?)```", chapter, re.DOTALL)
    (home.configs / "hello.yaml").write_text(file)
    (program,) = re.findall(r"```bash\n(.*?)```", chapter, re.DOTALL)
    ours = [line for line in program.splitlines() if not line.startswith(("source ", "export "))]
    done = {}
    for line in ours:
        words = shlex.split(line.replace("include/metric_configs", str(home.configs)))
        done[line] = subprocess.run(
            words, env=home.environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done[line].returncode == 0, done[line].stdout[-3000:] + done[line].stderr[-1000:]
    assert "hello" in done["airflow dags test hello-cpu"].stdout
    told = done["ml-metrics history hello-cpu"].stdout
    assert "success" in told
    assert "pass" in told
