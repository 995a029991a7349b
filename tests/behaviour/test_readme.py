"""The README's chapter about your own test, followed step by step."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from airflow_home import PROJECT, Home

pytestmark = [pytest.mark.e2e]


def test_your_own_test(home: Home) -> None:
    chapter = (PROJECT / "README.md").read_text().split("## Your own test")[1].split("\n## ")[0]
    (file,) = re.findall(r"```yaml\n(.*?)```", chapter, re.DOTALL)
    (home.configs / "hello.yaml").write_text(file)
    (program,) = re.findall(r"```bash\n(.*?)```", chapter, re.DOTALL)
    ours = [line for line in program.splitlines() if not line.startswith(("source ", "export "))]
    done = {}
    for line in ours:
        argv = shlex.split(line.replace("include/metric_configs", str(home.configs)))
        done[line] = subprocess.run(
            argv, env=home.environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done[line].returncode == 0, done[line].stdout[-3000:] + done[line].stderr[-1000:]
    assert "hello" in done["airflow dags test hello-cpu"].stdout
    history = done["ml-metrics history hello-cpu"].stdout
    assert "success" in history
    assert "pass" in history
