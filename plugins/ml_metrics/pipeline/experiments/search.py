"""A search for the version that changed a metric of a test, by its trials."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import ConfigError
from ml_metrics.core.kinds import kind_of
from ml_metrics.judge import Probe, State
from ml_metrics.judge.bisect import Search, document, expectation, markdown, next_probe
from ml_metrics.pipeline.experiments.journal import Result
from ml_metrics.pipeline.experiments.trial import node_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ml_metrics.pipeline.experiments.trial import TrialRun


@dataclass(frozen=True, slots=True)
class TestSearch:
    """What is searched."""

    __test__ = False

    test: str
    parameter: str
    """What differs between the candidates: `image`, or a parameter of the test."""
    metric: str
    search: Search
    same_node: bool = False
    """Whether all trials run on the node of the first one."""

    @property
    def most_runs(self) -> int:
        return self.search.max_runs

    def question(self) -> dict[str, Any]:
        asked = asdict(self.search)
        lists = {name: list(asked[name]) for name in ("candidates", "good", "bad")}
        same = {"same_node": True} if self.same_node else {}
        return {"test": self.test, "parameter": self.parameter, "metric": self.metric, **asked, **lists, **same}

    @classmethod
    def from_question(cls, asked: dict[str, Any]) -> TestSearch:
        """The candidates are listed only once, and never change."""
        try:
            return cls(
                asked["test"],
                asked["parameter"],
                asked["metric"],
                Search.from_document(asked),
                bool(asked.get("same_node")),
            )
        except KeyError as error:
            raise ConfigError(f"the journal of the search cannot be read: {error!r}") from error

    def next_version(self, trials: Sequence[TrialRun]) -> str | None:
        """None if the search has ended."""
        step = next_probe(self.search, self._probes(trials))
        return self.search.candidates[step] if isinstance(step, int) else None

    def next_node(self, trials: Sequence[TrialRun]) -> str:
        """The node of the first trial whose node is known."""
        return node_of(trial.host for trial in trials) if self.same_node else ""

    def planned(self, history: Callable[[], Mapping[str, Sequence[float]]]) -> str:
        """The values of both ends show the noise."""
        return expectation(self.search)

    def result(self, trials: Sequence[TrialRun]) -> Result:
        """Finding nothing is an answer, spending the budget is not."""
        probes = self._probes(trials)
        found = next_probe(self.search, probes)
        if isinstance(found, int):
            raise ConfigError("the search has not ended")
        first, last = self.search.candidates[0], self.search.candidates[-1]
        return Result(
            f"{self.test}: {self.metric} from {first} to {last}",
            f"{found.reason} ({len(probes)} {'run' if len(probes) == 1 else 'runs'})",
            failed=not found.is_answer,
            notes=tuple(_unmeasured(trials)),
            markdown=markdown(self.search, probes, found, kind_of(self.metric).unit),
            document=document(self.search, probes, found),
        )

    def _probes(self, trials: Sequence[TrialRun]) -> list[Probe]:
        places = {candidate: place for place, candidate in enumerate(self.search.candidates)}
        found = []
        for trial in trials:
            value = trial.curves.get(self.metric) or trial.values.get(self.metric)
            is_broken = trial.state is State.MEASURED and value is None
            found.append(Probe(places[trial.version], value, State.BROKEN if is_broken else trial.state))
        return found


def _unmeasured(trials: Sequence[TrialRun]) -> list[str]:
    """A sentence for each reason of runs without a value, with the versions."""
    versions: dict[tuple[State, str], list[str]] = {}
    for trial in trials:
        if trial.state is not State.MEASURED:
            versions.setdefault((trial.state, trial.reason), []).append(trial.version)
    words = {State.BROKEN: "broke", State.UNTESTABLE: "cannot be tested"}
    return [
        f"{', '.join(dict.fromkeys(names))}: {words[state]}, {reason or 'without a reason'}"
        for (state, reason), names in versions.items()
    ]
