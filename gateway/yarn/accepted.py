"""What YARN's and MapReduce's REST interfaces accept: filters of lists, and fields of bodies.

Source: Apache Hadoop 3.4's documentation of them, and what yarn-api-client 1.0.3 sends.
"""

from __future__ import annotations

from railyard.cluster.accepted import Accepted, Entry, idle, refused, used

#: What is asked for at an address without filters of its own.
PLAIN = "this address"
APPS, APP = "/cluster/apps", "/cluster/apps/ID"
STATISTICS, NODES = "/cluster/appstatistics", "/cluster/nodes"
NODE_APPS, JOBS, TASKS = "/node/apps", "/history/mapreduce/jobs", "/mapreduce/jobs/ID/tasks"
SUBMIT, STATE = "POST apps", "PUT apps/ID/state"
QUEUE, PRIORITY, TIMEOUT = "PUT apps/ID/queue", "PUT apps/ID/priority", "PUT apps/ID/timeout"

_STATES = used("only those in one of these states")
_DESELECTS = idle("no answer has the fields that it can leave out")
_NO_MASTER = idle("a job's master lives in the ResourceManager and takes no slot")
_TIMES = {
    "startedTimeBegin": used("only those that began then or later, in ms since 1970"),
    "startedTimeEnd": used("only those that began then or before"),
    "finishedTimeBegin": used("only those that ended then or later"),
    "finishedTimeEnd": used("only those that ended then or before"),
}
_OF_JOBS = {
    "user": used("only this user's"),
    "queue": used("only this queue's; root.default is default"),
    "limit": used("at most so many"),
    **_TIMES,
}

_FILTERS: dict[str, dict[str, Entry]] = {
    APPS: {
        "states": _STATES,
        "state": _STATES,
        "finalStatus": used("only those that ended so"),
        "name": used("only those of this name"),
        "applicationTypes": used("only those of these types; all are MAPREDUCE"),
        "applicationTags": used("only those with one of these tags"),
        "deSelects": _DESELECTS,
        **_OF_JOBS,
    },
    APP: {"deSelects": _DESELECTS},
    STATISTICS: {
        "states": used("only these are counted"),
        "applicationTypes": used("of this type"),
    },
    NODES: {"states": _STATES, "healthy": refused("need states")},
    NODE_APPS: {"state": _STATES, "user": used("only this user's")},
    JOBS: {"state": _STATES, **_OF_JOBS},
    TASKS: {"type": used("m or r: only maps, or only reduces")},
}

#: The filters of all addresses below /ws/v1/cluster, node, history and /proxy.
FILTERS = Accepted(
    "YARN's REST interfaces: filters",
    "filter",
    {
        "delegation": used("a delegation token, where the gateway needs one"),
        "user.name": idle("Hadoop's clients say who they are; all users see and may do the same"),
        "_": idle("a number by which browsers go round their caches"),
        **{f"{of} {name}": entry for of, own in _FILTERS.items() for name, entry in own.items()},
    },
)

_NO_MOVE = refused("a job stays where it was submitted")

_FIELDS: dict[str, dict[str, Entry]] = {
    SUBMIT: {
        "application-id": used("one that new-application gave"),
        "application-name": used("the job's name"),
        "application-tags": used('{"tag": ["a", "b"]}, by which applicationTags finds it'),
        "application-type": used("MAPREDUCE; any other is refused"),
        "queue": used("the job's queue; root.default is default"),
        "railyard": used("the streaming job"),
        "am-container-spec": refused(
            "no command of an ApplicationMaster can run here: need the field railyard"
        ),
        "unmanaged-AM": refused("no ApplicationMaster runs: need the field railyard"),
        "priority": refused("the scheduler orders jobs"),
        "reservation-id": refused("there are no reservations"),
        "application-timeouts": refused("jobs have no time limit"),
        "node-label-expression": refused("nodes have no labels"),
        "max-app-attempts": _NO_MASTER,
        "resource": _NO_MASTER,
        "keep-containers-across-application-attempts": _NO_MASTER,
        "attempt-failures-validity-interval": _NO_MASTER,
        "am-black-listing-requests": _NO_MASTER,
        "log-aggregation-context": idle("logs of attempts are in the run folder"),
    },
    STATE: {
        "state": used("KILLED"),
        "diagnostics": used("why: the job's reason"),
    },
    QUEUE: {"queue": _NO_MOVE},
    PRIORITY: {"priority": _NO_MOVE},
    TIMEOUT: {"timeout": refused("jobs have no time limit")},
}

#: The fields of bodies, of JSON, or of XML for a state.
FIELDS = Accepted(
    "YARN's REST interfaces: fields of bodies",
    "field",
    {f"{of} {name}": entry for of, own in _FIELDS.items() for name, entry in own.items()},
)
