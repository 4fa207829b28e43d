"""A job's settings as Hadoop names them: which are used, change nothing here, or are refused.

``SETTINGS`` is the table; names that stand in it, and all that begin as Hadoop's own do, are looked
up there.  Any other name is the user's own: programs find it in their environment, nothing else.
A setting may also be *fixed*: refused, but for the one value that says what is done anyway.

Source: Apache Hadoop 3.4's ``mapred-default.xml``, its table of deprecated properties, and what
its streaming jar reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from railyard.cluster.acceptance import Accepted, Effect, Entry, idle, refused, used
from railyard.cluster.errors import UsageError
from railyard.cluster.messaging.wire import NAME_LETTERS_MAX

#: {name of old: name now}
OLD_NAMES = {
    "dfs.block.size": "dfs.blocksize",
    "fs.default.name": "fs.defaultFS",
    "io.sort.factor": "mapreduce.task.io.sort.factor",
    "io.sort.mb": "mapreduce.task.io.sort.mb",
    "io.sort.spill.percent": "mapreduce.map.sort.spill.percent",
    "job.end.notification.url": "mapreduce.job.end-notification.url",
    "job.end.retry.attempts": "mapreduce.job.end-notification.retry.attempts",
    "job.end.retry.interval": "mapreduce.job.end-notification.retry.interval",
    "job.local.dir": "mapreduce.job.local.dir",
    "jobclient.completion.poll.interval": "mapreduce.client.completion.pollinterval",
    "jobclient.output.filter": "mapreduce.client.output.filter",
    "jobclient.progress.monitor.poll.interval": "mapreduce.client.progressmonitor.pollinterval",
    "keep.failed.task.files": "mapreduce.task.files.preserve.failedtasks",
    "keep.task.files.pattern": "mapreduce.task.files.preserve.filepattern",
    "key.value.separator.in.input.line": (
        "mapreduce.input.keyvaluelinerecordreader.key.value.separator"
    ),
    "map.input.file": "mapreduce.map.input.file",
    "map.input.length": "mapreduce.map.input.length",
    "map.input.start": "mapreduce.map.input.start",
    "map.output.key.field.separator": "mapreduce.map.output.key.field.separator",
    "map.output.key.value.fields.spec": "mapreduce.fieldsel.map.output.key.value.fields.spec",
    "mapred.acls.enabled": "mapreduce.cluster.acls.enabled",
    "mapred.binary.partitioner.left.offset": "mapreduce.partition.binarypartitioner.left.offset",
    "mapred.binary.partitioner.right.offset": "mapreduce.partition.binarypartitioner.right.offset",
    "mapred.cache.archives": "mapreduce.job.cache.archives",
    "mapred.cache.files": "mapreduce.job.cache.files",
    "mapred.child.tmp": "mapreduce.task.tmp.dir",
    "mapred.committer.job.setup.cleanup.needed": "mapreduce.job.committer.setup.cleanup.needed",
    "mapred.compress.map.output": "mapreduce.map.output.compress",
    "mapred.create.symlink": "mapreduce.job.cache.symlink.create",
    "mapred.data.field.separator": "mapreduce.fieldsel.data.field.separator",
    "mapred.debug.out.lines": "mapreduce.task.debugout.lines",
    "mapred.inmem.merge.threshold": "mapreduce.reduce.merge.inmem.threshold",
    "mapred.input.dir": "mapreduce.input.fileinputformat.inputdir",
    "mapred.input.dir.formats": "mapreduce.input.multipleinputs.dir.formats",
    "mapred.input.dir.mappers": "mapreduce.input.multipleinputs.dir.mappers",
    "mapred.input.dir.recursive": "mapreduce.input.fileinputformat.input.dir.recursive",
    "mapred.input.pathFilter.class": "mapreduce.input.pathFilter.class",
    "mapred.jar": "mapreduce.job.jar",
    "mapred.job.classpath.archives": "mapreduce.job.classpath.archives",
    "mapred.job.classpath.files": "mapreduce.job.classpath.files",
    "mapred.job.id": "mapreduce.job.id",
    "mapred.job.map.memory.mb": "mapreduce.map.memory.mb",
    "mapred.job.name": "mapreduce.job.name",
    "mapred.job.priority": "mapreduce.job.priority",
    "mapred.job.queue.name": "mapreduce.job.queuename",
    "mapred.job.reduce.input.buffer.percent": "mapreduce.reduce.input.buffer.percent",
    "mapred.job.reduce.markreset.buffer.percent": "mapreduce.reduce.markreset.buffer.percent",
    "mapred.job.reduce.memory.mb": "mapreduce.reduce.memory.mb",
    "mapred.job.reduce.total.mem.bytes": "mapreduce.reduce.memory.totalbytes",
    "mapred.job.reuse.jvm.num.tasks": "mapreduce.job.jvm.numtasks",
    "mapred.job.shuffle.input.buffer.percent": "mapreduce.reduce.shuffle.input.buffer.percent",
    "mapred.job.shuffle.merge.percent": "mapreduce.reduce.shuffle.merge.percent",
    "mapred.job.tracker": "mapreduce.jobtracker.address",
    "mapred.join.expr": "mapreduce.join.expr",
    "mapred.join.keycomparator": "mapreduce.join.keycomparator",
    "mapred.lazy.output.format": "mapreduce.output.lazyoutputformat.outputformat",
    "mapred.line.input.format.linespermap": "mapreduce.input.lineinputformat.linespermap",
    "mapred.linerecordreader.maxlength": "mapreduce.input.linerecordreader.line.maxlength",
    "mapred.local.dir": "mapreduce.cluster.local.dir",
    "mapred.map.child.env": "mapreduce.map.env",
    "mapred.map.child.java.opts": "mapreduce.map.java.opts",
    "mapred.map.child.log.level": "mapreduce.map.log.level",
    "mapred.map.max.attempts": "mapreduce.map.maxattempts",
    "mapred.map.output.compression.codec": "mapreduce.map.output.compress.codec",
    "mapred.map.task.debug.script": "mapreduce.map.debug.script",
    "mapred.map.tasks": "mapreduce.job.maps",
    "mapred.map.tasks.speculative.execution": "mapreduce.map.speculative",
    "mapred.mapoutput.key.class": "mapreduce.map.output.key.class",
    "mapred.mapoutput.value.class": "mapreduce.map.output.value.class",
    "mapred.max.map.failures.percent": "mapreduce.map.failures.maxpercent",
    "mapred.max.reduce.failures.percent": "mapreduce.reduce.failures.maxpercent",
    "mapred.max.split.size": "mapreduce.input.fileinputformat.split.maxsize",
    "mapred.max.tracker.failures": "mapreduce.job.maxtaskfailures.per.tracker",
    "mapred.merge.recordsBeforeProgress": "mapreduce.task.merge.progress.records",
    "mapred.min.split.size": "mapreduce.input.fileinputformat.split.minsize",
    "mapred.min.split.size.per.node": "mapreduce.input.fileinputformat.split.minsize.per.node",
    "mapred.min.split.size.per.rack": "mapreduce.input.fileinputformat.split.minsize.per.rack",
    "mapred.output.compress": "mapreduce.output.fileoutputformat.compress",
    "mapred.output.compression.codec": "mapreduce.output.fileoutputformat.compress.codec",
    "mapred.output.compression.type": "mapreduce.output.fileoutputformat.compress.type",
    "mapred.output.dir": "mapreduce.output.fileoutputformat.outputdir",
    "mapred.output.key.class": "mapreduce.job.output.key.class",
    "mapred.output.key.comparator.class": "mapreduce.job.output.key.comparator.class",
    "mapred.output.value.class": "mapreduce.job.output.value.class",
    "mapred.output.value.groupfn.class": "mapreduce.job.output.group.comparator.class",
    "mapred.partitioner.class": "mapreduce.job.partitioner.class",
    "mapred.reduce.child.env": "mapreduce.reduce.env",
    "mapred.reduce.child.java.opts": "mapreduce.reduce.java.opts",
    "mapred.reduce.child.log.level": "mapreduce.reduce.log.level",
    "mapred.reduce.max.attempts": "mapreduce.reduce.maxattempts",
    "mapred.reduce.parallel.copies": "mapreduce.reduce.shuffle.parallelcopies",
    "mapred.reduce.slowstart.completed.maps": "mapreduce.job.reduce.slowstart.completedmaps",
    "mapred.reduce.task.debug.script": "mapreduce.reduce.debug.script",
    "mapred.reduce.tasks": "mapreduce.job.reduces",
    "mapred.reduce.tasks.speculative.execution": "mapreduce.reduce.speculative",
    "mapred.shuffle.connect.timeout": "mapreduce.reduce.shuffle.connect.timeout",
    "mapred.shuffle.read.timeout": "mapreduce.reduce.shuffle.read.timeout",
    "mapred.skip.attempts.to.start.skipping": "mapreduce.task.skip.start.attempts",
    "mapred.skip.map.auto.incr.proc.count": "mapreduce.map.skip.proc-count.auto-incr",
    "mapred.skip.map.max.skip.records": "mapreduce.map.skip.maxrecords",
    "mapred.skip.on": "mapreduce.job.skiprecords",
    "mapred.skip.out.dir": "mapreduce.job.skip.outdir",
    "mapred.skip.reduce.auto.incr.proc.count": "mapreduce.reduce.skip.proc-count.auto-incr",
    "mapred.skip.reduce.max.skip.groups": "mapreduce.reduce.skip.maxgroups",
    "mapred.submit.replication": "mapreduce.client.submit.file.replication",
    "mapred.system.dir": "mapreduce.jobtracker.system.dir",
    "mapred.task.id": "mapreduce.task.attempt.id",
    "mapred.task.is.map": "mapreduce.task.ismap",
    "mapred.task.partition": "mapreduce.task.partition",
    "mapred.task.profile": "mapreduce.task.profile",
    "mapred.task.profile.maps": "mapreduce.task.profile.maps",
    "mapred.task.profile.params": "mapreduce.task.profile.params",
    "mapred.task.profile.reduces": "mapreduce.task.profile.reduces",
    "mapred.task.timeout": "mapreduce.task.timeout",
    "mapred.temp.dir": "mapreduce.cluster.temp.dir",
    "mapred.text.key.comparator.options": "mapreduce.partition.keycomparator.options",
    "mapred.text.key.partitioner.options": "mapreduce.partition.keypartitioner.options",
    "mapred.textoutputformat.separator": "mapreduce.output.textoutputformat.separator",
    "mapred.tip.id": "mapreduce.task.id",
    "mapred.used.genericoptionsparser": "mapreduce.client.genericoptionsparser.used",
    "mapred.userlog.limit.kb": "mapreduce.task.userlog.limit.kb",
    "mapred.userlog.retain.hours": "mapreduce.job.userlog.retain.hours",
    "mapred.work.output.dir": "mapreduce.task.output.dir",
    "mapred.working.dir": "mapreduce.job.working.dir",
    "mapreduce.combine.class": "mapreduce.job.combine.class",
    "mapreduce.inputformat.class": "mapreduce.job.inputformat.class",
    "mapreduce.map.class": "mapreduce.job.map.class",
    "mapreduce.outputformat.class": "mapreduce.job.outputformat.class",
    "mapreduce.partitioner.class": "mapreduce.job.partitioner.class",
    "mapreduce.reduce.class": "mapreduce.job.reduce.class",
    "mapreduce.textoutputformat.separator": "mapreduce.output.textoutputformat.separator",
    "min.num.spills.for.combine": "mapreduce.map.combine.minspills",
    "reduce.output.key.value.fields.spec": "mapreduce.fieldsel.reduce.output.key.value.fields.spec",
    "user.name": "mapreduce.job.user.name",
}


@dataclass(frozen=True, slots=True)
class Fixed(Entry):
    """A setting that is refused but for ``value``, which is what is done anyway."""

    value: str


def _fixed(value: str, why: str) -> Fixed:
    return Fixed(Effect.REFUSED, f"{why}; only {value}", value)


_JVM = idle("a JVM's: programs run without one")
_SLOTS = idle("slots are counted, not memory or cores")
_BUFFERS = idle("of how sorting uses memory and disks: the order is the same")
_FETCHES = idle("of how an attempt fetches: the network decides how long that takes")
_CLIENT = idle("of how the command asks how far a job is")
_LOGS = idle("an attempt's log has all that its programs say")
_MASTER = idle("no ApplicationMaster runs: the ResourceManager has jobs itself")
_UBER = idle("each task is an attempt in a slot of its own")
_KEPT = idle("an attempt's folder is removed with its job")
_PROFILE = idle("profiling is off")
_COUNTERS = idle(f"a job may have 1,000 counters, a task 500, names {NAME_LETTERS_MAX} letters")
_STAGING = idle("of where a client and its master keep a job's own files")
_DAEMONS = idle("a daemon's own: no job sets it, in Hadoop neither")
_CLASSES = refused("Java classes are not run")
_CODEC = refused("nothing is compressed")
_SKIPS = refused("no records are skipped: a program that fails has failed")
_DEBUG = refused("the stderr of a failed attempt is shown")
_SECURITY = refused("there is no security of this kind: anybody may look at jobs and end them")
_NOTICES = refused("nobody is called at a job's end: ask for its state")
_FILES = refused("give -files or -archives")
_OF_TASK = refused("is set by the framework, for each task")
_WHERE = refused("jobs run on the cluster that the command finds")
_RECORDS = refused("programs read and write lines of text")
_STORE = refused("the block store is set up with the cluster: see docs/reference/topology-keys.md")

_NOW: dict[str, Entry] = {
    # What is read, and as how many maps ----------------------------------------------------------
    "mapreduce.input.fileinputformat.input.dir.recursive": used("folders within folders are read"),
    "mapreduce.input.fileinputformat.split.minsize": used("least bytes of a map's input"),
    "mapreduce.input.fileinputformat.split.maxsize": idle(
        "Hadoop's streaming does not read it either: mapreduce.job.maps makes splits smaller"
    ),
    "mapreduce.input.fileinputformat.split.minsize.per.node": refused("files are not combined"),
    "mapreduce.input.fileinputformat.split.minsize.per.rack": refused("files are not combined"),
    "mapreduce.input.fileinputformat.list-status.num-threads": idle("of how folders are listed"),
    "mapreduce.input.fileinputformat.input.dir.nonrecursive.ignore.subdirs": _fixed(
        "false", "a folder within a folder is read or refused"
    ),
    "mapreduce.input.fileinputformat.inputdir": refused("give -input"),
    "mapreduce.input.keyvaluelinerecordreader.key.value.separator": used(
        "ends the key of a line, with KeyValueTextInputFormat"
    ),
    "mapreduce.input.lineinputformat.linespermap": used("lines of a map, with NLineInputFormat"),
    "mapreduce.input.linerecordreader.line.maxlength": used("longer lines are left out"),
    "mapreduce.input.pathFilter.class": _CLASSES,
    "mapreduce.input.multipleinputs.dir.formats": _CLASSES,
    "mapreduce.input.multipleinputs.dir.mappers": _CLASSES,
    "mapreduce.job.inputformat.class": refused("give -inputformat"),
    "mapred.input.format.class": refused("give -inputformat"),
    "mapreduce.job.maps": used("a map gets at most this share of all bytes, and at most a block"),
    "mapreduce.job.max.map": _fixed("-1", "jobs have no limit of maps"),
    "mapreduce.job.max.split.locations": idle("of how splits are written down"),
    "mapreduce.job.split.metainfo.maxsize": idle("of how splits are written down"),
    "textinputformat.record.delimiter": used("ends a record; a file is then read by one map"),
    # Programs and their lines --------------------------------------------------------------------
    "stream.map.input.field.separator": used("between key and value of what a mapper reads"),
    "stream.map.input.ignoreKey": used("whether a mapper gets a record's key, such as its offset"),
    "stream.map.output.field.separator": used("between key and value of what a mapper writes"),
    "stream.num.map.output.key.fields": used("fields of a mapper's key"),
    "stream.reduce.input.field.separator": used("between key and value of what a reducer reads"),
    "stream.reduce.output.field.separator": used("between key and value of what a reducer writes"),
    "stream.num.reduce.output.key.fields": used("fields of a reducer's key"),
    "stream.non.zero.exit.is.failure": used("whether a program's status counts"),
    "stream.stderr.reporter.prefix": used("begins lines for counters and status"),
    "stream.jobconf.truncate.limit": used("letters of a setting in the environment; -1 = all"),
    "stream.map.input": _fixed("text", "programs read and write lines of text"),
    "stream.map.output": _fixed("text", "programs read and write lines of text"),
    "stream.reduce.input": _fixed("text", "programs read and write lines of text"),
    "stream.reduce.output": _fixed("text", "programs read and write lines of text"),
    "stream.io.identifier.resolver.class": _RECORDS,
    "stream.map.input.writer.class": _RECORDS,
    "stream.map.output.reader.class": _RECORDS,
    "stream.reduce.input.writer.class": _RECORDS,
    "stream.reduce.output.reader.class": _RECORDS,
    "stream.recordreader.class": _RECORDS,
    "stream.recordreader.begin": _RECORDS,
    "stream.recordreader.end": _RECORDS,
    "stream.recordreader.maxrec": _RECORDS,
    "stream.recordreader.lookahead": _RECORDS,
    "stream.recordreader.slowmatch": _RECORDS,
    "stream.map.streamprocessor": refused("give -mapper"),
    "stream.combine.streamprocessor": refused("give -combiner"),
    "stream.reduce.streamprocessor": refused("give -reducer"),
    "stream.addenvironment": refused("give -cmdenv"),
    "stream.minRecWrittenToEnableSkip_": _SKIPS,
    "stream.joindelay.milli": idle("all that a program writes is read"),
    "stream.shipped.hadoopstreaming": idle("no jar is opened"),
    "stream.tmpdir": _STAGING,
    "mapreduce.map.env": used("variables of maps' programs: A=1,B=2"),
    "mapreduce.map.env.NAME": used("a variable of maps' programs, NAME"),
    "mapreduce.reduce.env": used("variables of reduces' programs"),
    "mapreduce.reduce.env.NAME": used("a variable of reduces' programs, NAME"),
    "mapred.child.env": used("variables of the programs of tasks that have no env of their own"),
    "mapreduce.admin.user.env": refused("give mapreduce.map.env and mapreduce.reduce.env"),
    "mapreduce.admin.user.shell": refused("programs are started without a shell"),
    "mapreduce.map.ulimit": refused("programs have no limit of memory"),
    "mapreduce.reduce.ulimit": refused("programs have no limit of memory"),
    "mapred.child.ulimit": refused("programs have no limit of memory"),
    "mapreduce.task.tmp.dir": refused("programs have the TMPDIR of their node"),
    "mapreduce.job.map.class": refused("give -mapper"),
    "mapreduce.job.combine.class": refused("give -combiner"),
    "mapreduce.job.reduce.class": refused("give -reducer"),
    "mapred.mapper.class": refused("give -mapper"),
    "mapred.combiner.class": refused("give -combiner"),
    "mapred.reducer.class": refused("give -reducer"),
    "mapred.map.runner.class": _CLASSES,
    "mapreduce.job.chain.mapper": _CLASSES,
    "mapreduce.fieldsel.data.field.separator": refused("fields are not selected: a command can"),
    "mapreduce.fieldsel.map.output.key.value.fields.spec": refused(
        "fields are not selected: a command can"
    ),
    "mapreduce.fieldsel.reduce.output.key.value.fields.spec": refused(
        "fields are not selected: a command can"
    ),
    "mapreduce.join.expr": _CLASSES,
    "mapreduce.join.keycomparator": _CLASSES,
    # Keys ----------------------------------------------------------------------------------------
    "mapreduce.map.output.key.field.separator": used("between the fields that -k counts"),
    "mapreduce.job.output.key.comparator.class": used("KeyFieldBasedComparator"),
    "mapreduce.partition.keycomparator.options": used("its -k, -n and -r"),
    "mapreduce.job.partitioner.class": used("as -partitioner"),
    "mapreduce.partition.keypartitioner.options": used("the -k of KeyFieldBasedPartitioner"),
    "num.key.fields.for.partition": used("of KeyFieldBasedPartitioner: as -k1,N"),
    "mapreduce.job.output.group.comparator.class": refused("lines with equal keys are a group"),
    "mapreduce.job.combiner.group.comparator.class": refused("lines with equal keys are a group"),
    "mapreduce.partition.binarypartitioner.left.offset": refused("give KeyFieldBasedPartitioner"),
    "mapreduce.partition.binarypartitioner.right.offset": refused("give KeyFieldBasedPartitioner"),
    "mapreduce.totalorderpartitioner.path": refused("give KeyFieldBasedPartitioner"),
    "mapreduce.totalorderpartitioner.naturalorder": refused("give KeyFieldBasedPartitioner"),
    "mapreduce.map.output.key.class": _fixed("org.apache.hadoop.io.Text", "keys are text"),
    "mapreduce.map.output.value.class": _fixed("org.apache.hadoop.io.Text", "values are text"),
    "mapreduce.job.output.key.class": _fixed("org.apache.hadoop.io.Text", "keys are text"),
    "mapreduce.job.output.value.class": _fixed("org.apache.hadoop.io.Text", "values are text"),
    "map.sort.class": _BUFFERS,
    # Output --------------------------------------------------------------------------------------
    "mapreduce.output.textoutputformat.separator": used("between key and value of the output"),
    "railyard.streaming.add.separator": used("a line without a separator gets one, as in Hadoop"),
    "dfs.replication": used("replicas of the output"),
    "mapreduce.output.fileoutputformat.compress": _fixed("false", "outputs are plain text"),
    "mapreduce.output.fileoutputformat.compress.codec": _CODEC,
    "mapreduce.output.fileoutputformat.compress.type": _CODEC,
    "mapreduce.output.fileoutputformat.outputdir": refused("give -output"),
    "mapreduce.output.basename": _fixed("part", "files are called part-00000 and so on"),
    "mapreduce.output.lazyoutputformat.outputformat": refused("each reduce writes its file"),
    "mapreduce.job.outputformat.class": refused("give -outputformat"),
    "mapred.output.format.class": refused("give -outputformat"),
    "mapred.output.committer.class": _CLASSES,
    "mapreduce.outputcommitter.factory.class": _CLASSES,
    "mapreduce.fileoutputcommitter.algorithm.version": _fixed(
        "1", "files appear when the whole job has succeeded"
    ),
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": _fixed("true", "there is a _SUCCESS"),
    "mapreduce.fileoutputcommitter.cleanup.skipped": _fixed("false", "what failed is removed"),
    "mapreduce.fileoutputcommitter.cleanup-failures.ignored": _fixed(
        "false", "what failed is removed"
    ),
    "mapreduce.job.committer.setup.cleanup.needed": _fixed("true", "what failed is removed"),
    "mapreduce.job.committer.task.cleanup.needed": _fixed("true", "what failed is removed"),
    "dfs.blocksize": _STORE,
    "dfs.permissions.enabled": _STORE,
    "dfs.umaskmode": _STORE,
    "fs.permissions.umask-mode": _STORE,
    # The job and its schedule --------------------------------------------------------------------
    "mapreduce.job.name": used("its name"),
    "mapreduce.job.queuename": used("the queue that it is submitted to"),
    "mapreduce.job.tags": used("tags of the application, with commas; small letters"),
    "mapreduce.job.reduces": used("reduces; 0: what maps write is the output"),
    "mapreduce.map.maxattempts": used("failures of a map that end the job"),
    "mapreduce.reduce.maxattempts": used("failures of a reduce that end the job"),
    "mapreduce.task.timeout": used("ms without a byte in or out until a program has failed"),
    "mapreduce.map.failures.maxpercent": _fixed("0", "a task that has failed ends its job"),
    "mapreduce.reduce.failures.maxpercent": _fixed("0", "a task that has failed ends its job"),
    "mapreduce.job.maxtaskfailures.per.tracker": _fixed(
        "3", "a job avoids a node after three failures there"
    ),
    "yarn.app.mapreduce.am.job.node-blacklisting.enable": _fixed(
        "true", "a job avoids a node after three failures there"
    ),
    "yarn.app.mapreduce.am.job.node-blacklisting.ignore-threshold-node-percent": refused(
        "a job avoids a node after three failures there"
    ),
    "mapreduce.job.reduce.slowstart.completedmaps": refused(
        "the scheduler's: railyard up --set shuffle.slowstart=SHARE"
    ),
    "yarn.app.mapreduce.am.job.reduce.rampup.limit": refused("the scheduler decides"),
    "yarn.app.mapreduce.am.job.reduce.preemption.limit": refused("the scheduler decides"),
    "mapreduce.job.reducer.preempt.delay.sec": refused("the scheduler decides"),
    "mapreduce.job.reducer.unconditional-preempt.delay.sec": refused("the scheduler decides"),
    "mapreduce.map.speculative": used("false: no map has copies, whatever the scheduler does"),
    "mapreduce.reduce.speculative": used("false: no reduce has copies"),
    "mapreduce.job.speculative.speculativecap": refused("the scheduler's: speculation.cap"),
    "mapreduce.job.speculative.speculative-cap-running-tasks": refused(
        "the scheduler's: speculation.cap"
    ),
    "mapreduce.job.speculative.speculative-cap-total-tasks": refused(
        "the scheduler's: speculation.cap"
    ),
    "mapreduce.job.speculative.minimum-allowed-tasks": refused("the scheduler's: speculation.cap"),
    "mapreduce.job.speculative.slowtaskthreshold": refused(
        "the scheduler's: speculation.slow_task"
    ),
    "mapreduce.job.speculative.slownodethreshold": refused(
        "the scheduler's: speculation.slow_node"
    ),
    "mapreduce.job.speculative.retry-after-no-speculate": refused(
        "the scheduler's: speculation.every_s"
    ),
    "mapreduce.job.speculative.retry-after-speculate": refused(
        "the scheduler's: speculation.every_s"
    ),
    "mapreduce.job.priority": _fixed("NORMAL", "jobs have no priorities: the scheduler decides"),
    "mapreduce.job.running.map.limit": _fixed("0", "the scheduler decides"),
    "mapreduce.job.running.reduce.limit": _fixed("0", "the scheduler decides"),
    "mapreduce.job.node-label-expression": refused("nodes have no labels"),
    "mapreduce.map.node-label-expression": refused("nodes have no labels"),
    "mapreduce.reduce.node-label-expression": refused("nodes have no labels"),
    "mapreduce.job.am.node-label-expression": refused("nodes have no labels"),
    "mapreduce.job.user.name": refused("the user is who calls the command, or HADOOP_USER_NAME"),
    "mapreduce.framework.name": _fixed("yarn", "jobs run on the cluster that the command finds"),
    "mapreduce.jobtracker.address": _WHERE,
    "yarn.resourcemanager.address": _WHERE,
    "yarn.resourcemanager.hostname": _WHERE,
    "fs.defaultFS": idle("the block store is that of the cluster that the command finds"),
    "mapreduce.job.skiprecords": _fixed("false", "no records are skipped"),
    "mapreduce.job.skip.outdir": _SKIPS,
    "mapreduce.map.skip.maxrecords": _fixed("0", "no records are skipped"),
    "mapreduce.reduce.skip.maxgroups": _fixed("0", "no records are skipped"),
    "mapreduce.task.skip.start.attempts": _SKIPS,
    "mapreduce.map.skip.proc-count.auto-incr": _SKIPS,
    "mapreduce.reduce.skip.proc-count.auto-incr": _SKIPS,
    "mapreduce.job.end-notification.url": _NOTICES,
    "mapreduce.job.end-notification.custom-notifier-class": _NOTICES,
    "mapreduce.job.end-notification.retry.attempts": _NOTICES,
    "mapreduce.job.end-notification.retry.interval": _NOTICES,
    "mapreduce.job.end-notification.max.attempts": _NOTICES,
    "mapreduce.job.end-notification.max.retry.interval": _NOTICES,
    "mapreduce.job.acl-view-job": _SECURITY,
    "mapreduce.job.acl-modify-job": _SECURITY,
    "mapreduce.cluster.acls.enabled": _fixed("false", "anybody may look at jobs and end them"),
    "mapreduce.job.encrypted-intermediate-data": _fixed("false", "nothing is encrypted"),
    "mapreduce.shuffle.ssl.enabled": _fixed("false", "nothing is encrypted"),
    "hadoop.security.authentication": _fixed("simple", "users are believed"),
    "hadoop.job.ugi": refused("the user is who calls the command, or HADOOP_USER_NAME"),
    # Files beside the programs -------------------------------------------------------------------
    "mapreduce.job.cache.files": _FILES,
    "mapreduce.job.cache.archives": _FILES,
    "mapreduce.job.cache.symlink.create": _fixed("yes", "files have links in the working folder"),
    "mapreduce.job.classpath.files": _CLASSES,
    "mapreduce.job.classpath.archives": _CLASSES,
    "tmpfiles": _FILES,
    "tmparchives": _FILES,
    "tmpjars": _CLASSES,
    # What programs find in their environment -----------------------------------------------------
    "mapreduce.job.id": _OF_TASK,
    "mapreduce.job.application.attempt.id": _OF_TASK,
    "mapreduce.task.id": _OF_TASK,
    "mapreduce.task.attempt.id": _OF_TASK,
    "mapreduce.task.partition": _OF_TASK,
    "mapreduce.task.ismap": _OF_TASK,
    "mapreduce.task.output.dir": _OF_TASK,
    "mapreduce.map.input.file": _OF_TASK,
    "mapreduce.map.input.start": _OF_TASK,
    "mapreduce.map.input.length": _OF_TASK,
    # How the shuffle is made ---------------------------------------------------------------------
    "mapreduce.map.output.compress": _fixed("false", "what maps write is shuffled as it is"),
    "mapreduce.map.output.compress.codec": _CODEC,
    "mapreduce.map.combine.minspills": _BUFFERS,
    "mapreduce.map.sort.spill.percent": _BUFFERS,
    "mapreduce.task.io.sort.factor": _BUFFERS,
    "mapreduce.task.io.sort.mb": _BUFFERS,
    "mapreduce.task.index.cache.limit.bytes": _BUFFERS,
    "mapreduce.ifile.readahead": _BUFFERS,
    "mapreduce.ifile.readahead.bytes": _BUFFERS,
    "mapreduce.reduce.input.buffer.percent": _BUFFERS,
    "mapreduce.reduce.markreset.buffer.percent": _BUFFERS,
    "mapreduce.reduce.merge.inmem.threshold": _BUFFERS,
    "mapreduce.reduce.merge.memtomem.enabled": _BUFFERS,
    "mapreduce.reduce.merge.memtomem.threshold": _BUFFERS,
    "mapreduce.reduce.shuffle.input.buffer.percent": _BUFFERS,
    "mapreduce.reduce.shuffle.memory.limit.percent": _BUFFERS,
    "mapreduce.reduce.shuffle.merge.percent": _BUFFERS,
    "mapreduce.reduce.shuffle.parallelcopies": _FETCHES,
    "mapreduce.reduce.shuffle.connect.timeout": _FETCHES,
    "mapreduce.reduce.shuffle.read.timeout": _FETCHES,
    "mapreduce.reduce.shuffle.maxfetchfailures": _FETCHES,
    "mapreduce.reduce.shuffle.retry-delay.max.ms": _FETCHES,
    "mapreduce.reduce.shuffle.fetch.retry.enabled": _FETCHES,
    "mapreduce.reduce.shuffle.fetch.retry.interval-ms": _FETCHES,
    "mapreduce.reduce.shuffle.fetch.retry.timeout-ms": _FETCHES,
    "mapreduce.job.map.output.collector.class": _CLASSES,
    "mapreduce.job.reduce.shuffle.consumer.plugin.class": _CLASSES,
    # Memory, JVMs, logs --------------------------------------------------------------------------
    "mapreduce.map.memory.mb": _SLOTS,
    "mapreduce.reduce.memory.mb": _SLOTS,
    "mapreduce.map.cpu.vcores": _SLOTS,
    "mapreduce.reduce.cpu.vcores": _SLOTS,
    "mapreduce.reduce.memory.totalbytes": _SLOTS,
    "mapreduce.job.heap.memory-mb.ratio": _JVM,
    "mapred.child.java.opts": _JVM,
    "mapreduce.map.java.opts": _JVM,
    "mapreduce.reduce.java.opts": _JVM,
    "mapreduce.admin.map.child.java.opts": _JVM,
    "mapreduce.admin.reduce.child.java.opts": _JVM,
    "mapreduce.job.classloader": _JVM,
    "mapreduce.job.user.classpath.first": _JVM,
    "mapreduce.task.classpath.user.precedence": _JVM,
    "mapreduce.job.jvm.numtasks": _JVM,
    "mapreduce.job.jar": _JVM,
    "mapreduce.application.classpath": _JVM,
    "mapreduce.map.log.level": _LOGS,
    "mapreduce.reduce.log.level": _LOGS,
    "mapreduce.task.userlog.limit.kb": _LOGS,
    "mapreduce.job.userlog.retain.hours": _LOGS,
    "mapreduce.task.debugout.lines": _LOGS,
    "mapreduce.map.debug.script": _DEBUG,
    "mapreduce.reduce.debug.script": _DEBUG,
    "mapreduce.task.profile": _fixed("false", "programs are not profiled"),
    "mapreduce.task.profile.maps": _PROFILE,
    "mapreduce.task.profile.reduces": _PROFILE,
    "mapreduce.task.profile.params": _PROFILE,
    "mapreduce.task.files.preserve.failedtasks": _KEPT,
    "mapreduce.task.files.preserve.filepattern": _KEPT,
    "mapreduce.task.merge.progress.records": _CLIENT,
    "mapreduce.task.combine.progress.records": _CLIENT,
    "mapreduce.task.ping-for-liveliness-check": idle("an attempt says itself that it is alive"),
    "mapreduce.job.counters.max": _COUNTERS,
    "mapreduce.job.counters.limit": _COUNTERS,
    "mapreduce.job.counters.groups.max": _COUNTERS,
    "mapreduce.job.counters.group.name.max": _COUNTERS,
    "mapreduce.job.counters.counter.name.max": _COUNTERS,
    "mapreduce.job.ubertask.enable": _UBER,
    "mapreduce.job.ubertask.maxmaps": _UBER,
    "mapreduce.job.ubertask.maxreduces": _UBER,
    "mapreduce.job.ubertask.maxbytes": _UBER,
    "yarn.app.mapreduce.am.resource.mb": _MASTER,
    "yarn.app.mapreduce.am.resource.memory-mb": _MASTER,
    "yarn.app.mapreduce.am.resource.cpu-vcores": _MASTER,
    "yarn.app.mapreduce.am.command-opts": _MASTER,
    "yarn.app.mapreduce.am.admin-command-opts": _MASTER,
    "yarn.app.mapreduce.am.env": _MASTER,
    "yarn.app.mapreduce.am.log.level": _MASTER,
    "yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms": _MASTER,
    "yarn.app.mapreduce.am.job.task.listener.thread-count": _MASTER,
    "yarn.app.mapreduce.am.staging-dir": _STAGING,
    "yarn.app.mapreduce.client.max-retries": _CLIENT,
    "yarn.app.mapreduce.client-am.ipc.max-retries": _CLIENT,
    "yarn.app.mapreduce.client.job.max-retries": _CLIENT,
    "yarn.app.mapreduce.client.job.retry-interval": _CLIENT,
    "mapreduce.am.max-attempts": _MASTER,
    "mapreduce.client.completion.pollinterval": _CLIENT,
    "mapreduce.client.progressmonitor.pollinterval": _CLIENT,
    "mapreduce.client.output.filter": _CLIENT,
    "mapreduce.client.submit.file.replication": _STAGING,
    "mapreduce.client.genericoptionsparser.used": _CLIENT,
    "mapreduce.app-submission.cross-platform": _CLIENT,
    "mapreduce.job.complete.cancel.delegation.tokens": idle("there are no delegation tokens"),
    "mapreduce.job.hdfs-servers": idle("there are no delegation tokens"),
    "mapreduce.job.local.dir": _STAGING,
    "mapreduce.job.working.dir": refused("give whole paths to -input and -output"),
    "mapreduce.jobtracker.system.dir": _STAGING,
    "mapreduce.cluster.local.dir": _STAGING,
    "mapreduce.cluster.temp.dir": _STAGING,
    **dict.fromkeys(
        (
            *("dfs.datanode.*", "dfs.journalnode.*", "dfs.namenode.*", "mapreduce.jobhistory.*"),
            *("mapreduce.jobtracker.*", "mapreduce.shuffle.*", "mapreduce.tasktracker.*"),
            *("yarn.log-aggregation.*", "yarn.nodemanager.*", "yarn.resourcemanager.*"),
            *("yarn.scheduler.*", "yarn.timeline-service.*", "yarn.web-proxy.*"),
        ),
        _DAEMONS,
    ),
    "hadoop.tmp.dir": _STAGING,
    "io.file.buffer.size": _BUFFERS,
}


def _of_old_name(new: str) -> Entry:
    entry, note = _NOW[new], f"the old name of {new}"
    if isinstance(entry, Fixed):
        return Fixed(entry.effect, f"{note}: {entry.note}", entry.value)
    return Entry(entry.effect, note if entry.effect is Effect.USED else f"{note}: {entry.note}")


#: How the names begin that are Hadoop's, or ours.
_BEGINS = (
    *("dfs.", "fs.", "hadoop.", "io.", "ipc.", "mapred.", "mapreduce.", "net.topology."),
    *("railyard.", "security.", "sequencefile.", "stream.", "tasktracker.", "textinputformat."),
    *("topology.", "yarn.", "job.end.", "job.local.", "jobclient.", "keep.failed.", "keep.task."),
    *("key.value.separator", "local.cache.", "map.input.", "map.output.", "map.sort."),
    *("min.num.spills", "num.key.fields", "reduce.output.key", "user.name"),
)
SETTINGS = Accepted(
    "hadoop jar: settings",
    "setting",
    _NOW | {old: _of_old_name(new) for old, new in OLD_NAMES.items()},
    _BEGINS,
)
#: A setting's name for one variable of programs.
_VARIABLE = re.compile(r"(mapreduce\.(?:map|reduce)\.env)\.([A-Za-z_][A-Za-z0-9_]*)")
#: The names that stand for all that begin so.
_ALL = tuple(name for name in SETTINGS.entries if name.endswith(".*"))
_IS_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Settings:
    """Settings under their names of now; values are text.  Of two values the last holds."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self.values = {OLD_NAMES.get(name, name): value for name, value in given.items()}

    def check(self) -> None:
        """Raise ``UsageError`` for the first setting that is refused."""
        for name, value in self._given.items():
            listed = _listed(name)
            entry = SETTINGS.entries.get(listed)
            if not (isinstance(entry, Fixed) and _equal(value, entry.value)):
                SETTINGS.check(listed, f"-D {name}={value}")

    def text(self, name: str, default: str) -> str:
        """A text, ``default`` if it is not set."""
        return self.values.get(name, default)

    def separator(self, name: str, default: str = "\t") -> bytes:
        """What separates fields: a tab if it is not set; ``UsageError`` for none at all."""
        text = self.text(name, default)
        if not text or "\n" in text:
            raise UsageError(f"-D {name}=: need at least one letter, and no end of a line")
        return text.encode("utf-8", "surrogateescape")

    def whole(self, name: str, default: int, least: int = 0) -> int:
        """A whole number of at least ``least``; ``UsageError`` for anything else."""
        text = self.text(name, str(default)).strip()
        digits = text.removeprefix("-")
        good = digits.isascii() and digits.isdecimal() and len(digits) < 18
        if not (good and int(text) >= least):
            raise UsageError(f"-D {name}={text[:40]}: need a whole number, {least} or more")
        return int(text)

    def flag(self, name: str, default: bool) -> bool:
        """True or false; ``UsageError`` for what is neither, which Hadoop takes for the default."""
        text = self.values.get(name)
        if text is None:
            return default
        said = {"true": True, "false": False}.get(text.strip().lower())
        if said is None:
            raise UsageError(f"-D {name}={text[:40]}: need true or false")
        return said

    def variables(self, name: str) -> dict[str, str]:
        """The variables of a task's programs: of ``name``, "A=1,B=2", and of ``name.A``."""
        whole = name if name in self.values else "mapred.child.env"
        found = {}
        for part in filter(None, map(str.strip, self.text(whole, "").split(","))):
            variable, equals, value = part.partition("=")
            if not (equals and _IS_VARIABLE.fullmatch(variable)):
                raise UsageError(f"-D {whole}: {part[:80]}: need NAME=VALUE, with commas between")
            found[variable] = value
        for given, value in self.values.items():
            match = _VARIABLE.fullmatch(given)
            if match and match[1] == name:
                found[match[2]] = value
        for variable, value in found.items():
            if "$" in value or "\0" in value:
                right = "its value as it is: other variables are not filled in"
                raise UsageError(f"-D {whole}: {variable}={value[:80]}: need {right}")
        return found


def _listed(name: str) -> str:
    """The name under which a setting stands in the table, perhaps with NAME or *."""
    if name in SETTINGS.entries:
        return name
    if _VARIABLE.fullmatch(name):
        return _VARIABLE.sub(r"\1.NAME", name)
    return next((one for one in _ALL if name.startswith(one.removesuffix("*"))), name)


def in_environment(settings: Mapping[str, str], letters_max: int = -1) -> dict[str, str]:
    """Settings as a program finds them: names of now and of old, with _ for what is no letter.

    Those with a null byte are left out: no environment can have them.  Longer values than
    ``letters_max`` are cut, unless it is negative.
    """
    old = {old: settings[new] for old, new in OLD_NAMES.items() if new in settings}
    return {
        "".join(c if c.isascii() and c.isalnum() else "_" for c in name): (
            value if letters_max < 0 else value[:letters_max]
        )
        for name, value in {**settings, **old}.items()
        if "\0" not in name + value
    }


def _equal(given: str, fixed: str) -> bool:
    """Whether a value is the one that is taken: as text, or as a number."""
    text = given.strip().lower()
    if text in (fixed.lower(), fixed.lower().rpartition(".")[2]):
        return True
    try:
        return float(text) == float(fixed)
    except ValueError:
        return False
