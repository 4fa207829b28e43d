"""The first communication stage of a recurring job, as it is predicted.

Source: Co-scheduler, section IV-D.2: task times as in Corral's latency response function, from the
data of a task and the rate at which a slot works.  Of a DAG (section VI) the stages that read files
and the stage that reads most of them count; later stages go by their real input.
"""

from __future__ import annotations

from railyard.cluster.topology import Compute
from railyard.resourcemanager.interface.forecast import Forecast, StageForecast
from railyard.resourcemanager.schedulers.co_scheduler.guidelines import Expected


def communication(forecast: Forecast, compute: Compute, error: float = 1.0) -> Expected | None:
    """Maps, reduces and the shuffle between them; None if nothing reads what maps write.

    ``error`` is what sizes are multiplied by, to see what wrong forecasts do.
    """
    maps = {stage.name: stage for stage in forecast.stages if not stage.reads}
    read_bytes = {
        stage.name: sum(maps[name].output_bytes for name in stage.reads if name in maps)
        for stage in forecast.stages
        if stage.reads
    }
    if not any(read_bytes.values()):
        return None
    most = max(read_bytes, key=lambda name: read_bytes[name])
    [reduces] = [stage for stage in forecast.stages if stage.name == most]
    parents = [maps[name] for name in reduces.reads if name in maps]
    tasks = sum(stage.tasks for stage in parents)
    work_s = sum(stage.tasks * _task_s(stage, compute.map_rate, error) for stage in parents)
    return Expected(
        maps=tasks,
        map_s=work_s / tasks,
        reduces=reduces.tasks,
        reduce_s=_task_s(reduces, compute.reduce_rate, error),
        shuffle_bytes=read_bytes[most] * error,
    )


def _task_s(stage: StageForecast, rate: float, error: float) -> float:
    """Seconds that one of its tasks computes."""
    rate = stage.rate_bytes_per_s or rate
    return stage.task_s + stage.input_bytes * error / stage.tasks / rate
