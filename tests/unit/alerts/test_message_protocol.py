"""No message is lost, and none arrives twice, whenever a process is killed, whatever fails, and what clocks show.

The only exception is a message that the server took and whose answer was lost: it arrives once more.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ml_metrics.alerts import hurry, post, send_pending
from ml_metrics.core.errors import AlertError
from unit.alerts.message_world import PERIOD, Process, Server, World, message, patched

EFFECTS = st.integers(0, 25)
"""The side effect before which a process is killed; 0 for none."""
SKEWS = st.sampled_from([timedelta(), timedelta(), timedelta(hours=-1), timedelta(minutes=30)])
HEALING_PASSES = 60


class Protocol(RuleBasedStateMachine):
    """Any order of gates, senders, faults and clocks."""

    def __init__(self) -> None:
        super().__init__()
        self.cleanup = ExitStack()
        folder = self.cleanup.enter_context(tempfile.TemporaryDirectory())
        self.world = World(Path(folder))
        self.cleanup.enter_context(patched(self.world))

    @rule(run=st.integers(0, 2), content=st.integers(0, 1), killed=EFFECTS, skew=SKEWS)
    def end_a_run(self, run: int, content: int, killed: int, skew: timedelta) -> None:
        """A gate writes its message and its callback hurries it; Airflow tries again after a kill."""
        for killed_before in (killed, 0):
            process = Process(killed_before, clock=skew)
            with self.world.running(process), self.world.open() as warehouse:
                try:
                    posted = post(
                        message(run, content),
                        mail=self.world.mail,
                        warehouse=warehouse,
                        run_folder=self.world.run_folder(run),
                    )
                except AlertError:
                    return  # it can be written nowhere: Airflow fails the task, loudly
                hurry(posted, self.world.mail, warehouse)
            if process.effects < killed_before or not killed_before:
                return

    @rule(killed=EFFECTS, skew=SKEWS)
    def send(self, killed: int, skew: timedelta) -> None:
        with self.world.running(Process(killed, clock=skew)):
            self._pass()

    @rule(at=st.integers(1, 25), killed=EFFECTS, hangs=st.booleans())
    def send_while_another_sends(self, at: int, killed: int, hangs: bool) -> None:
        """One sender stops before any side effect, and other senders come by; an hour later if it hangs so long."""

        def others() -> None:
            for _ in range(3):
                if hangs:
                    self.world.now += timedelta(minutes=20)
                    self.world.monotonic += 1200
                self._pass()

        # a sender that the machine stops while its server takes the message cannot know that others took over
        with self.world.running(Process(killed, interludes={at: others})):
            self._pass()

    @rule(server=st.sampled_from(Server))
    def change_the_server(self, server: Server) -> None:
        self.world.server = server

    @rule(works=st.booleans())
    def change_the_warehouse(self, works: bool) -> None:
        self.world.warehouse_works = works

    @rule(works=st.booleans())
    def change_the_disk(self, works: bool) -> None:
        self.world.disk_works = works

    @rule(minutes=st.sampled_from([1, 5, 70, -60]))
    def pass_time(self, minutes: int) -> None:
        """Time passes; or the clock of the warehouse is set back."""
        self.world.now += timedelta(minutes=minutes)
        self.world.monotonic += max(0, minutes) * 60

    @invariant()
    def nothing_is_sent_before_it_is_durable(self) -> None:
        assert self.world.taken_before_durable == []

    @invariant()
    def nothing_arrives_twice(self) -> None:
        extra = {key: times - 1 for key, times in self.world.arrived.items() if times > 1}
        assert {key: n for key, n in extra.items() if n > self.world.lost_answers[key]} == {}

    def teardown(self) -> None:
        """The faults end: what was decided arrives."""
        try:
            self.world.server, self.world.warehouse_works, self.world.disk_works = Server.WELL, True, True
            for _ in range(HEALING_PASSES):
                if self.world.decided() <= set(self.world.arrived):
                    break
                self.world.now += PERIOD
                with self.world.running(Process()):
                    self._pass()
            assert self.world.decided() - set(self.world.arrived) == set()
            self.nothing_arrives_twice()
        finally:
            self.cleanup.close()

    def _pass(self) -> None:
        with self.world.open() as warehouse:
            send_pending(warehouse, self.world.mail)


TestProtocol = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")(Protocol.TestCase)
TestProtocol.settings = settings(
    max_examples=int(os.environ.get("ML_METRICS_MESSAGES_EXAMPLES", "15")),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
