"""What a week came to, in one line for each way of deciding."""

from dataclasses import dataclass
from statistics import fmean

from reconciler.model.gpu import parse_model, satisfies
from tests.bench.data.course import Course, Stay
from tests.bench.data.curves import HOUR

HEAD = (
    f"{'':18}{'TB moved':>10}{'transfer USD':>14}{'start delay h':>15}{'p95 h':>8}{'idle GPU-h':>12}"
    f"{'missed':>12}{'GPU USD':>10}{'left over':>11}{'CPU s':>8}"
)


@dataclass(frozen=True, slots=True)
class Figures:
    """One way's week."""

    name: str
    moved_tb: float
    transfer_usd: float
    delay_hours: float
    """From a job's arrival to its program's first moment, in the mean ..."""
    delay_p95_hours: float
    idle_gpu_hours: float
    """Cards kept for a job whose program did not run yet."""
    missed: int
    deadlines: int
    gpu_usd: float
    """Of all cards from when they were kept for a job to its end."""
    left: int
    """Jobs that had not ended at the end."""
    cpu_seconds: float

    def line(self) -> str:
        """As it is printed."""
        missed = f"{self.missed}/{self.deadlines}"
        return (
            f"{self.name:18}{self.moved_tb:10.2f}{self.transfer_usd:14.0f}{self.delay_hours:15.2f}{self.delay_p95_hours:8.2f}"
            f"{self.idle_gpu_hours:12.1f}{missed:>12}{self.gpu_usd:10.0f}{self.left:11}{self.cpu_seconds:8.1f}"
        )


def figures(name: str, course: Course, cpu_seconds: float) -> Figures:
    """What became of it."""
    stays = list(course.ended.values())
    delays = sorted(_started(stay) - stay.job.at for stay in stays)
    unended = [*course.waiting.values(), *(stay.job for stay in course.stays.values())]
    due = [stay.job.deadline is not None for stay in stays].count(True) + sum(job.deadline is not None for job in unended)
    late = sum(stay.job.deadline is not None and _ended(stay) > stay.job.deadline for stay in stays)
    links, carried = course.place.fleet.links, course.lines.carried
    return Figures(
        name=name,
        moved_tb=sum(carried.values()) / 1e12,
        transfer_usd=sum(size / 1e9 * (links[key].usd_per_gb or 0.0) for key, size in carried.items()),
        delay_hours=fmean(delays) / HOUR,
        delay_p95_hours=delays[int(0.95 * (len(delays) - 1))] / HOUR,
        idle_gpu_hours=sum((_started(stay) - stay.held_at) * stay.job.gpus for stay in stays) / HOUR,
        missed=late + sum(job.deadline is not None for job in unended),
        deadlines=due,
        gpu_usd=sum((_ended(stay) - stay.held_at) / HOUR * stay.job.gpus * _usd(course, stay) for stay in stays),
        left=len(unended),
        cpu_seconds=cpu_seconds,
    )


def _started(stay: Stay) -> float:
    if stay.started_at is None:
        raise ValueError(f"{stay.job.key} ended and never began")
    return stay.started_at


def _ended(stay: Stay) -> float:
    if stay.ended_at is None:
        raise ValueError(f"{stay.job.key} has not ended")
    return stay.ended_at


def _usd(course: Course, stay: Stay) -> float:
    """US dollars a GPU-hour of the node that it had."""
    model = str(parse_model(course.place.nodes[stay.region][stay.node]))
    prices = course.place.fleet.regions[stay.region].prices
    return max(usd for own, usd in prices.items() if satisfies(model, own))
