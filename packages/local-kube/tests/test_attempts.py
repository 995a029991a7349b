"""The attempts of a container, with processes that end at the worst moment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from local_kube.formats import now
from local_kube.pods import container_runner, statuses
from local_kube.pods.confinement import Confinement
from local_kube.pods.container_runner import ContainerRunner, PodContext
from local_kube.pods.environment import References

CONTAINER = {"name": "base", "image": "python", "command": ["false"]}


@dataclass
class Ends:
    """An attempt that is running when its state is read the first times, and has failed afterwards."""

    folder: Path
    reads: int = 0
    ends_after: ClassVar[int] = 0
    created: bool = True
    container_id: str = "process://1"

    def start(self, *_: Any, **__: Any) -> None:
        pass

    def state(self) -> dict[str, Any]:
        self.reads += 1
        times = {"started_at": now(), "finished_at": now()}
        if self.reads <= self.ends_after:
            return {"phase": "running", **times}
        return {"phase": "terminated", "exit_code": 1, "reason": "Error", **times}

    def termination_message(self, **_: Any) -> str:
        return ""


@pytest.mark.parametrize("reads", range(5))
@pytest.mark.parametrize(("policy", "end"), [("OnFailure", "Running"), ("Always", "Running"), ("Never", "Failed")])
def test_a_container_that_ends_while_its_state_is_read_follows_its_restart_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, end: str, reads: int
) -> None:
    monkeypatch.setattr(container_runner, "Container", Ends)
    monkeypatch.setattr(Ends, "ends_after", reads)
    spec = {"restartPolicy": policy, "containers": [CONTAINER]}
    pod = {"metadata": {"name": "pod", "namespace": "default", "uid": "1"}, "spec": spec}
    references = References("default", lambda *_: None)
    context = PodContext(tmp_path, tmp_path, "", Confinement("off"), tmp_path, references, lambda *_: None)
    runner = ContainerRunner(pod, CONTAINER, context)
    phases = [statuses.pod_phase([], [runner.advance(None, stopping=False)]) for _ in range(reads + 2)]
    assert set(phases) <= {"Running", end}
    assert phases[-1] == end
