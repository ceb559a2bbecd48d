"""Why: a closed set of codes, each with one sentence into which its numbers go. Every refusal, wait and condition has one."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from reconciler.model.base import Model


class Why(StrEnum):
    """Reason codes; the value is the sentence for people, filled with the reason's numbers."""

    # A region cannot take the job, ever, as things are declared.
    REGION_NOT_ALLOWED = "{region} is not among the job's allowed_regions"
    REGION_DENIED = "{region} is among the job's denied_regions"
    NO_SUCH_REGION = "there is no region {region}; known: {known}"
    TEAM_MAY_NOT_USE_REGION = "team {team} may not use {region}"
    NOT_COMPLIANT = "{region} lacks the tag {tag}, which the {whose} asks for"
    WORKLOAD_KIND_MISSING = "{region} has no {kind} installed"
    DEADMAN_NOT_POSSIBLE = "{region} itself ends jobs whose agent is gone (deadman), which it cannot do for a {kind}"
    GRACE_TOO_LONG = "{region} itself ends jobs whose agent is gone (deadman), within {most} s; this one wants {wanted} s to end"
    NAMESPACE_MISSING = "{region} has no namespace {team}"
    RDMA_MISSING = "{region} offers no RDMA"
    QUEUE_MISSING = "{region} knows no queue {queue}"
    TOLERATION_UNKNOWN = "{region} knows no toleration {toleration}"
    GPU_MODEL_MISMATCH = "{region} has no {wanted}; it has {have}"
    VRAM_TOO_SMALL = "{region}: the largest fitting GPU has {have_gib} GiB of VRAM, {wanted_gib} GiB are asked for"
    VRAM_UNKNOWN = "{region}: the VRAM of its {model} is not known"
    DRIVER_MISMATCH = "{region}: driver {have} is not {wanted}"
    NODE_TOO_SMALL = "{region}: the largest fitting node has {largest} {resource}, the job asks for {wanted} on one"
    REGION_TOO_SMALL = "{region} has {have} nodes that the job fits on when they are empty, it asks for {wanted}"
    DATA_UNREACHABLE = "{dataset} cannot come to {region}: {cause}"
    DATA_MAY_NOT_LEAVE = "{dataset} must stay where the tag {tag} holds; {region} does not carry it"
    IMAGE_MISSING = "there is no image {image}: {words}"
    IMAGE_FORBIDDEN = "the image {image} may not be pulled: {words}"
    OUTPUT_NOT_COMPLIANT = "its {what} {uri} lies in the store of {store}, which lacks the tag {tag} that the {whose} asks for"
    OVERLAY_NOT_ALLOWED = "{region} does not allow pod_overlay to set {field}"
    VETOED = "a person ruled out {region} for this job"
    PINNED_ELSEWHERE = "a person pinned this job to {pin}"

    # Not now.
    CORDONED = "{region} is cordoned"
    DRAINING = "{region} is being drained (`drain_by: {by}`): nothing new goes there"
    NO_REPORT = "{region} has not reported yet"
    REPORT_STALE = "{region} last reported {age_seconds} s ago, more than {limit_seconds} s"
    REGION_UNKNOWN = "{region} has not been heard of since {since}: it gets no new jobs, what runs there goes on; {next}"
    REGION_AWAY = "{region} has not been heard of since {since} and counts as lost; {next}"
    REGION_REVOKED = "{region} was given up at {since}: nothing of ours runs there until its agent takes a new lease; {next}"
    REGION_FORGOTTEN = "{region} was given up: {by} said that it never comes back; its jobs go on elsewhere, where they may"
    FORGOTTEN_BY_FORCE = (
        "{region} was given up by force: {by} said that it never comes back, and took the risk that something of it still runs"
    )
    REGION_AWAITED = (
        "{region} is declared, and no agent of it has reported yet: nothing goes there; `reconciler bootstrap {region}` prints "
        "what its cluster needs, `reconciler doctor {region}` looks what is wrong there"
    )
    REGION_UNDECLARED = (
        "{region} is declared no more, and {attempts} attempts still stand there: they go on, and nothing new goes there; put "
        "regions/{region}.yaml back, or wait for their ends; if it never comes back: `reconciler forget {region}`"
    )
    REGION_DRAINS = "{region} is being drained: {attempts} attempts still stand there; what runs at {by} is stopped then"
    REGION_DRAINED = (
        "the time to drain {region} ended at {by}: {attempts} attempts still stand there; each of them is stopped, with time to "
        "save a checkpoint"
    )
    REGION_SPOKEN_OF = (
        "confirmations/{file} says that {region} is lost, but it was heard of since: the word has no effect any more, of a later "
        "silence neither; remove the file"
    )
    HUB_DOUBTS_ITSELF = (
        "{silent} of {known} regions fell silent at once, which looks like a fault of the hub's own: none is given up. If they "
        "really are gone: `reconciler lost REGION`, for each"
    )
    REGION_HALTED = "{region} may run nothing at present: {message}"
    NOT_ENOUGH_FREE = "{region}: {free_nodes} of {wanted} nodes are free that hold {per_node} {resource} each"
    FRAGMENTED = "{region} has {free} GPUs free, but the largest block on one node is {largest}; {per_node} are asked for"
    IMAGE_UNASKED = "the registry of its image {image} is being asked what that is"
    LINK_FULL = (
        "transfers have held more of the link from {source} to {target} than they may since {since}: {held_mb} MB/s, of which "
        "{usable_mb} MB/s may be; none begins on it until that is over"
    )
    OUTBID = "{region} scores {score}, {winner} scores {winner_score}"

    # The job as a whole.
    CHOSEN = "{region} has the best score, {score}"
    ONLY_CHOICE = "{region} is the only region that can take it"
    PINNED = "a person pinned this job to {region}"
    NO_REGION_HAS_MODEL = "no region has {wanted}; there are {have}{hint}"
    NO_NODE_LARGE_ENOUGH = "the largest fitting node anywhere has {largest} {resource}, the job asks for {wanted} on one"
    NO_CAPACITY = "every region that could run it is busy or out of reach"
    WAIT_NOT_COPY = "{region} has the data and is expected to be free at {free_at}; copying {gib} GiB to {other} {cause}"
    DEADLINE_OUT_OF_REACH = (
        "neither waiting for {region} (until {free_at}) nor copying to {other} (until {copied_at}) "
        "meets the deadline {deadline}; the sooner is taken"
    )
    NO_REGIONS = "no region is declared"
    NO_REGION_LEFT = "rules of people leave no region: {refusals}"
    APPROVAL_NEEDED = "the policy asks for approval ({rule}); merge branch {branch} into {into}"
    SUSPENDED = "suspend is true"
    HELD = "a person holds this job by `veto: all` in its placement"
    DECLINED = "its proposal was closed or deleted unmerged; edit the job, or commit a placement for it to {into}"
    BRANCH_REFUSED = "the remote refuses branch {branch}: {message}"
    DUPLICATE_JOB = "two files name this job: {paths}"
    SPEC_BROKEN = "its file is broken; the last good version stays in force"
    PERHAPS_RENAMED = "its file is gone, and {path}, which is refused, may be it under another name; mend or remove that one"
    PLACEMENT_BROKEN = "its file on the placements branch cannot be read; what it said before stays in force"
    SOURCE_SUSPICIOUS = "main is doubted, so what runs stays as it is: {what}"
    OVERRIDE_REFUSED = "the placement asks for {region}: {cause}"
    EDITED_AFTER_SUCCESS = "its spec changed after it had succeeded; raise `rerun` to run the new one"
    RELEASE_AHEAD = (
        "`release: {release}` was written when the last attempt was {last}: nothing is released ahead, so it has no effect; take "
        "it out, and once there is something to release: `reconciler release {job}`"
    )
    NOT_SYNCED = "the sync engine of {region} refuses its manifest: {message}"
    STAGING = "{what} is being brought to {region} first; its GPUs are held when that is there"
    COPY_LOST = (
        "of {what}, which had been brought to {region}, {percent} % is left in the store there; what is missing is brought again "
        "before a job that reads it may run there"
    )
    LINK_BUSY = "it waits for its turn on the link from {source} to {target}"
    LINK_CLOSED = "it waits until there is a link from {source} to {target} that carries something"
    STAGING_FAILED = "{what} could not be brought to {region}: {message}"
    RESULTS_RETURNING = "it is done; what it wrote in {region} is on its way to {to}"
    RESULTS_NOT_RETURNED = "it is done; what it wrote in {region} could not be returned to {to} yet: {message}"
    NOT_YET_TOLD = "{region} cannot be told yet that it may run: {message}"
    NOT_YET_RUNNING = "{region} has not started it yet: {message}"

    # How an attempt ended.
    SUCCEEDED = "the program ended with exit code 0"
    EXITED = "the program ended with exit code {code}"
    PROGRAM_NOT_STARTED = "the program cannot be started: {message}"
    KILLED = "the program was killed by signal {signal}"
    OUT_OF_MEMORY = "the program used more memory than it had asked for"
    IMAGE_PULL = "the image cannot be pulled: {message}"
    START_TIMEOUT = "it did not start within {limit_seconds} s: {message}"
    DEADLINE_EXCEEDED = "it used its run time of {limit_seconds} s"
    DISRUPTED = "its pod was taken away from it: {message}"
    OBJECT_LOST = "its object was deleted in {region} by somebody else"
    OBJECT_REPLACED = "its object in {region} was deleted and made again; it is never released twice"
    REGION_LOST = "{region} was given up as lost at {at}: nothing of it runs there any more"
    REGION_LOST_HELD = (
        "its region {region} was lost while it ran, and it is not started again by itself (`on_region_lost: hold`); "
        "if it may be: `reconciler release {job}`"
    )
    CANCELLED = "its file was removed"
    NOT_WANTED = "no job waits for it any more"
    SUPERSEDED = "its spec changed: {changed}"
    MOVED = "a person moved it to {region}"
    REGION_LOST_WAITS = (
        "its region {region} was given up as lost, and it waits for it to come back (`on_region_lost: wait`); to let it start "
        "elsewhere: `reconciler release {job}`"
    )
    DRAIN_MOVED = "{region} is being drained: it is stopped there, with time to save a checkpoint, to go on in {to}"
    DRAIN_OVER = "{region} was to be empty by {by}: it is stopped, with time to save a checkpoint, and goes on where it can"
    RETRIES_EXHAUSTED = "{failures} attempts failed, {retries} retries were allowed"
    START_REFUSED = "the region cannot start it: {message}"
    TOO_MANY_DISRUPTIONS = (
        "{count} attempts ended without counting; the job is held for a person: `reconciler release {job}` lets it go on"
    )


Number = int | float | str | None


class Reason(Model):
    """A code and the numbers behind it. `code` in PascalCase, as published."""

    code: str
    numbers: dict[str, Number] = Field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence for people; the code itself where another version, or a person, wrote one that is not known here."""
        try:
            return Why[_enum_name(self.code)].value.format(**self.numbers)
        except KeyError:
            return f"{self.code} {self.numbers}" if self.numbers else self.code


def _enum_name(code: str) -> str:
    return "".join("_" + letter if letter.isupper() and index else letter.upper() for index, letter in enumerate(code))


def because(why: Why, **numbers: Number) -> Reason:
    """A reason of that code with its numbers."""
    return Reason.model_construct(code=code_of(why), numbers=numbers)


_CODES: Mapping[Why, str] = {why: "".join(part.capitalize() for part in why.name.split("_")) for why in Why}


def code_of(why: Why) -> str:
    """The published code: PascalCase."""
    return _CODES[why]
