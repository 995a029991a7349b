"""`compare_to` of a condition: whose runs are the baseline."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_serializer, model_validator

from ml_metrics.config.strict import Strict


class OtherRuns(Strict):
    """The runs that are the baseline in place of those of the test itself."""

    test: str | None = Field(None, min_length=1)
    """The test. Default: the test itself."""
    deployment: str | None = Field(None, min_length=1)
    """The deployment that runs it, as its setting `deployment` names it. Default: the deployment of the run."""

    @model_validator(mode="after")
    def something_is_other(self) -> Self:
        """Reject an empty mapping, which would compare a test with itself."""
        if self.test is None and self.deployment is None:
            raise ValueError("give a test, a deployment, or both: {deployment: prod, test: resnet-release}")
        return self

    @model_serializer
    def _short(self) -> str | dict[str, str]:
        """Return the form in which a test file has it."""
        if self.deployment is None:
            return self.test or ""
        return {"deployment": self.deployment} | ({} if self.test is None else {"test": self.test})

    def series(self, own: str) -> str:
        """Return the name of these runs among those of a test's judgement: no test is named like a deployment's."""
        test = self.test or own
        return test if self.deployment is None else f"{test} of deployment {self.deployment}"

    def __str__(self) -> str:
        parts = (f"test {self.test}" if self.test else "", f"deployment {self.deployment}" if self.deployment else "")
        return " of ".join(filter(None, parts))


def _other_runs(value: Any) -> Any:
    """Accept the name of a test alone."""
    if value is None or isinstance(value, OtherRuns | dict):
        return value
    if isinstance(value, str) and value:
        return {"test": value}
    raise ValueError(f"give the name of a test, or a mapping such as {{deployment: prod}}; {value!r} is neither")


CompareTo = Annotated[OtherRuns | None, BeforeValidator(_other_runs)]
