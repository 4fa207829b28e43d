"""``railyard simulate``: the virtual clock.  Jobs under a scheduler, or coflows without tasks.

Standard output has the results; how far it is goes to standard error.
"""

from __future__ import annotations

import click
from click.core import ParameterSource

from railyard.cluster.errors import UsageError
from railyard.scripts.results.outputfile import say_written, write_json
from railyard.scripts.results.summary import require_figures
from railyard.scripts.simulating.request import SimulateRequest
from railyard.scripts.terminal.request import command

#: A workload of this kind is coflows alone, unless a scheduler for jobs is named.
_COFLOWS = "coflow-benchmark"
#: What can be said of coflows alone.
_OF_COFLOWS = ("words", "flow_schedulers", "first", "json_file", "topology", "network")


@command(SimulateRequest)
def simulate(request: SimulateRequest) -> int:
    """Run a workload in virtual time, under the same schedulers as real jobs.

    A trace of coflows runs alone, without tasks; by default on one port of 1 Gbps for each rack of
    the trace.  With several flow schedulers, the JSON file has a list of summaries.

    Several runs, of schedulers or seeds, are spread over this machine's cores, and shown as
    railyard compare does.
    """
    if request.workload.split(":")[0] == _COFLOWS and not request.schedulers:
        from railyard.scripts.simulating.coflows import simulate_coflows

        _require_only(_OF_COFLOWS)
        simulate_coflows(request)
        return 0
    several = len(request.schedulers) > 1 or len(request.flow_schedulers) > 1
    if several or request.seeds is not None or request.on is not None:
        from railyard.scripts.commands.runs.compare import carry_out

        return 0 if carry_out(request).ok else 1
    from railyard.scripts.api.studies import simulated
    from railyard.scripts.simulating.shown import show

    done, run = simulated(request)
    if request.json_file is not None:
        write_json(run.summary, request.json_file)
    show(done)
    say_written(run.folder, request.json_file)
    require_figures([run.summary])
    return 0 if run.ok else 1


def _require_only(names: tuple[str, ...]) -> None:
    """Raise ``UsageError`` if another option was typed."""
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if typed and name not in names:
            raise UsageError(f"{option.opts[0]}: coflows alone have none: need --scheduler too")
