"""policy.yaml: how the platform team wants decisions made. reconciler.yaml: where the hub's things are."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from reconciler.model.base import END, Fraction, Many, Model, Name, Quantity, Seconds, Usd
from reconciler.model.job_parts import Strategy
from reconciler.model.region import LossTimes, StoreAddress

Weight = Annotated[float, Field(ge=0, le=100)]
BranchName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9/-]{0,61}[a-z0-9])?" + END)]


class Weights(Model):
    """How much each term of the score counts; they need not add up to anything."""

    data_affinity: Weight = 0.5
    """The share of the job's data that is there already."""
    idle_gpus: Weight = 0.3
    """The share of the region's GPUs that are idle."""
    cost: Weight = 0.2
    """How near the price comes to the cheapest."""
    bandwidth: Weight = 0.0
    """How quick the link is by which data would come."""
    latency: Weight = 0.0
    """How near the data is, in round-trip time."""
    start_time: Weight = 0.0
    """How soon it can start, data included."""
    image_locality: Weight = 0.0
    """The share of the image that the region's mirror has."""
    rdma: Weight = 0.3
    """Only for jobs that would use RDMA but can do without."""

    @model_validator(mode="after")
    def _something_counts(self) -> Self:
        if not any(self.model_dump().values()):
            raise ValueError("at least one weight must be above 0")
        return self


class Approval(Model):
    """Which placements wait for a person: any rule that fits is enough."""

    always: bool = False
    """Every placement."""
    teams: Many[Name] = ()
    """Placements of these teams' jobs."""
    regions: Many[Name] = ()
    """Placements in these regions."""
    price_above: Usd | None = None
    """Estimated price of the job in US dollars; an unknown price counts as above."""
    priority_at_least: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Jobs of this priority and above."""


class Limits(Model):
    """What a job may ask for, and what it gets when it does not say."""

    max_runtime_seconds: Seconds | None = None
    """For jobs that do not say, and at most for those that do."""
    start_timeout_seconds: Seconds = 900
    max_priority: Annotated[int, Field(ge=0, le=1000)] = 1000
    """The highest priority."""
    max_nodes: Annotated[int, Field(ge=1)] = 4096
    """The most nodes."""
    overlay_teams: Many[Name] = ()
    """Teams whose jobs may carry a `pod_overlay`."""


class Thresholds(Model):
    """Numbers that decide; the defaults are meant to hold."""

    small_data: Quantity = "5G"
    """Data below this size never pins a job to a region."""
    stage_images_from: Quantity = "1G"
    """An image of which a region's mirror lacks so much, or more, is brought there before a job's GPUs are held, where images are
    looked up."""
    report_fresh_seconds: Seconds = 30
    """Reports older than this get no new jobs."""
    copy_urgency_usd_per_hour: Usd = 10.0
    """What an hour sooner is worth for a job of normal priority, when copying is weighed against waiting."""
    disappearance_jobs: int = Field(default=3, ge=0)
    """More live jobs than this, and ..."""
    disappearance_share: Fraction = 0.2
    """... a larger share than this gone in one step is an accident until confirmed."""
    reschedules: int = Field(default=20, ge=0, le=1000)
    """Attempts that may end without counting as failures before the job is held for a person."""
    drain_at_once: int = Field(default=8, ge=1, le=1000)
    """Of a region that is being drained so many jobs at most are on their way to another one."""
    link_share: Fraction = 0.8
    """Of what a link is believed to give, our transfers hold so much at most; the rest is for everything else that uses it."""
    declared_margin: Fraction = 0.5
    """So much of a declared capacity is not believed as long as nobody has measured the link: what is declared is often the speed
    of a port, and one path through it gives less."""
    measured_for_hours: float = Field(default=6.0, gt=0, le=10_000)
    """A measurement is believed whole when it is new, and less with age: after so long by that margin, and then no less."""
    link_trickle: Annotated[float, Field(ge=0, le=0.2)] = 0.02
    """Of a link's rate, what each of the next transfers gets when the one before it is about to end, so that it is under way."""
    link_lead_seconds: Seconds = 60
    """A transfer is under way so long before those ahead of it are expected to have ended."""
    link_full_minutes: Annotated[float, Field(ge=0, le=1440)] = 5.0
    """A link of which more than its share is held for so long is full: no transfer begins on it until it is not."""


class AheadOfNeed(Model):
    """Datasets that are staged before a GPU is free, because several waiting jobs will want them there."""

    jobs: int = Field(default=2, ge=1, le=10_000)
    """At least so many jobs that wait."""
    size: Quantity = "1T"
    """Bytes under way for this at once at most; `0` switches it off."""
    usd_per_day: Usd = 20.0
    """What it may cost a day at most. A copy of unknown price is not made ahead of need."""


class Policy(Model):
    """How decisions are made."""

    strategy: Strategy | None = None
    """Named weights; left out: `weights`."""
    weights: Weights = Weights()
    """How regions are weighed where no strategy is named."""
    approval: Approval = Approval()
    """Which placements wait for a person."""
    limits: Limits = Limits()
    """What a job may ask for."""
    thresholds: Thresholds = Thresholds()
    """Numbers that decide."""
    ahead_of_need: AheadOfNeed = AheadOfNeed()
    """What is staged before it is needed."""
    loss: LossTimes = LossTimes()
    """When a region counts as lost, where it does not say so itself."""


class Branches(Model):
    """Names of the branches, where they differ from the default."""

    main: BranchName = "main"
    """What people write."""
    placements: BranchName = "placements"
    """Decisions in force."""
    status: BranchName = "status"
    """The ledger."""

    @model_validator(mode="after")
    def _apart(self) -> Self:
        names = [self.main, self.placements, self.status]
        if len(set(names)) < len(names) or any(name.startswith(("region/", "proposals/")) for name in names):
            raise ValueError("the branches must differ, and none may be under region/ or proposals/")
        return self


class Intervals(Model):
    """How often the hub looks and pushes."""

    poll_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 1.0
    """How often the remote is asked for its branches; webhooks are quicker."""
    push_seconds: Annotated[float, Field(ge=0, le=3600)] = 10.0
    """At least this long between pushes, on average ..."""
    push_burst: int = Field(default=3, ge=1, le=100)
    """... with this many at once after a pause (forges ask for at most 6 a minute)."""


ForgeVariable = Annotated[str, StringConstraints(pattern=r"^RECONCILER_FORGE_[A-Z0-9_]{1,64}" + END)]


class ForgeAddress(Model):
    """The forge of this repository, for pull requests. Its token comes from the environment of the hub, never from here."""

    kind: Literal["gitea", "github", "gitlab"]
    """Whose API it speaks; Forgejo is `gitea`."""
    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/@?#]+(/[^\s?#]*)?" + END)] | None = None
    """Its address, such as `https://git.example.com`; may be left out for github.com and gitlab.com."""
    repository: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+" + END, max_length=255)]
    """`owner/name`; on GitLab the whole path of the project."""
    token_env: ForgeVariable = "RECONCILER_FORGE_TOKEN"  # noqa: S105 - its name
    """The variable of the hub's environment that holds the token. No others can be named, so that this file cannot ask for
    any other secret of the hub."""
    look_seconds: Annotated[float, Field(ge=10, le=86400)] = 300.0
    """How often the forge is asked at least; webhooks are quicker."""

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if self.kind == "gitea" and self.url is None:
            raise ValueError("`url` is needed for gitea")
        return self


class Images(Model):
    """Whether the hub asks image registries. Off unless said: many hubs cannot reach them."""

    resolve: bool = False
    """`true`: the images of jobs that wait are looked up. A tag is pinned to its digest, and an image that does not exist is
    found before placement."""
    mirrors: bool = False
    """`true`: the regions' mirrors are asked how much of an image they have; the hub must reach them."""


SETTINGS_FILE = "reconciler.yaml"


class Settings(Model):
    """reconciler.yaml: branches, store, intervals, forge, images."""

    branches: Branches = Branches()
    """Names of the branches."""
    store: StoreAddress | None = None
    """The hub's object store, where reports and grants meet; left out: as the hub is started."""
    intervals: Intervals = Intervals()
    """How often the hub looks and pushes."""
    forge: ForgeAddress | None = None
    """Where pull requests are opened and answered; left out: review is by plain Git."""
    images: Images = Images()
    """Whether image registries are asked."""
