"""What the user asks for, as one validated document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from rooftune.spec.goal import GOAL_DIMENSIONS, QUALITY_DIMENSIONS, Goal, parse_bound
from rooftune.spec.nearest import nearest
from rooftune.spec.units import parse_quantity

Setting = bool | int | float | str
Configuration = dict[str, Setting]
"""Switch name to setting, e.g. ``{"batching": "static", "slots": 4}``; a runtime's table gives each its flags."""

Seconds = Annotated[float, BeforeValidator(lambda v: parse_quantity(v, "time"))]
PerSecond = Annotated[float, BeforeValidator(lambda v: parse_quantity(v, "rate"))]


class Part(BaseModel):
    """Base of every part of a spec: immutable, unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RuntimeSpec(Part):
    """What serves. ``options`` belong to the runtime (for `url`: base_url, model, api_key_env)."""

    name: Literal["embedded", "url"] = "embedded"
    options: dict[str, Any] = Field(default_factory=dict)


class BaselineSpec(Part):
    """The deployment as it is now, stated: switches that differ from the runtime's defaults."""

    techniques: Configuration = Field(default_factory=dict)


def _rate(value: Any) -> Any:
    return "auto" if value == "auto" else parse_quantity(value, "rate")


class Arrivals(Part):
    """How requests arrive. ``rate: auto`` is ``load`` times what the baseline reaches with all slots busy."""

    process: Literal["poisson", "constant", "concurrency"] = "poisson"
    rate: Annotated[
        float | Literal["auto"] | None, BeforeValidator(lambda v: None if v is None else _rate(v))
    ] = None
    load: Annotated[float, Field(gt=0, le=3)] = 0.9
    users: Annotated[int, Field(ge=1, le=4096)] | None = None
    think: Seconds = 0.0

    @model_validator(mode="after")
    def _complete(self) -> Arrivals:
        if self.process == "concurrency":
            if self.users is None:
                raise ValueError("arrivals with process 'concurrency' need 'users', the number of clients")
            if self.rate is not None:
                raise ValueError(
                    "arrivals with process 'concurrency' take no 'rate': the answers set the pace"
                )
        else:
            if self.rate is None:
                raise ValueError(f"arrivals with process '{self.process}' need 'rate', e.g. 4/s, or auto")
            if self.users is not None:
                raise ValueError("'users' goes with process 'concurrency'")
            if self.rate != "auto" and not self.rate > 0:
                raise ValueError("arrivals: the rate must be above 0")
        return self


class Prompts(Part):
    """What is asked. ``builtin:chat`` are conversations with a shared system prompt that ship with Rooftune."""

    source: str = "builtin:chat"
    input_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    output_tokens: Annotated[int, Field(ge=1, le=100_000)] | None = None


class Workload(Part):
    arrivals: Arrivals
    prompts: Prompts = Prompts()
    requests: Annotated[int, Field(ge=1, le=10_000_000)] | Literal["auto"] = "auto"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1


class Goals(Part):
    """Bounds on a run, parsed from ``{ttft_p95: "<= 400ms", quality: {kl_mean: "<= 0.02"}}``."""

    bounds: tuple[Goal, ...] = ()
    quality: tuple[Goal, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or "bounds" in raw:
            return raw
        quality = raw.get("quality") or {}
        if not isinstance(quality, dict):
            raise ValueError("goals: 'quality' is a mapping such as {kl_mean: \"<= 0.02\"}")
        bounds = []
        for metric, text in raw.items():
            if metric == "quality":
                continue
            dimension = GOAL_DIMENSIONS.get(metric)
            if dimension is None:
                raise ValueError(
                    f"goals: unknown metric '{metric}'{nearest(metric, [*GOAL_DIMENSIONS, 'quality'])}"
                )
            bounds.append(parse_bound(metric, text, dimension))
        margins = []
        for metric, text in quality.items():
            dimension = QUALITY_DIMENSIONS.get(metric)
            if dimension is None:
                raise ValueError(f"goals.quality: unknown '{metric}'{nearest(metric, QUALITY_DIMENSIONS)}")
            margins.append(parse_bound(metric, text, dimension))
        return {"bounds": tuple(bounds), "quality": tuple(margins)}


class Deployment(Part):
    device: str = "auto"
    count: Annotated[int, Field(ge=1)] = 1
    tp: Annotated[int, Field(ge=1)] = 1
    replicas: Annotated[int, Field(ge=1)] = 1


class Price(Part):
    amount: Annotated[float, Field(ge=0)]
    currency: str = "USD"
    per: Literal["hour", "month"] = "hour"

    @property
    def per_second(self) -> float:
        """Price of one second of the deployment (a month is 730 hours)."""
        return self.amount / 3600.0 / (730.0 if self.per == "month" else 1.0)


class Budget(Part):
    time: Seconds = 600.0


Permission = Literal["load", "restart", "hog"]


class Spec(Part):
    """A goal for a served model, and all that is needed to work towards it."""

    model: str
    runtime: RuntimeSpec = RuntimeSpec()
    baseline: BaselineSpec = BaselineSpec()
    slo: dict[Literal["ttft", "tpot", "itl", "e2e"], Seconds] = Field(default_factory=dict)
    goals: Goals = Goals()
    workload: Workload
    deployment: Deployment = Deployment()
    price: Price | None = None
    budget: Budget = Budget()
    allow: tuple[Permission, ...] | None = None

    @field_validator("slo")
    @classmethod
    def _positive(cls, slo: dict[str, float]) -> dict[str, float]:
        for name, bound in slo.items():
            if bound <= 0:
                raise ValueError(f"slo {name} must be above 0")
        return slo

    @model_validator(mode="after")
    def _consistent(self) -> Spec:
        names = {goal.metric for goal in self.goals.bounds}
        if names & {"slo_attainment", "goodput"} and not self.slo:
            raise ValueError("goals name slo_attainment or goodput, but 'slo' states no bound per request")
        if "cost_per_million_output_tokens" in names and self.price is None:
            raise ValueError("a goal on cost needs 'price'")
        return self

    @property
    def permissions(self) -> frozenset[str]:
        """What may be done to the target: a server that Rooftune starts may be restarted, any other only loaded."""
        if self.allow is not None:
            return frozenset(self.allow)
        return frozenset({"load", "restart"}) if self.runtime.name == "embedded" else frozenset({"load"})
