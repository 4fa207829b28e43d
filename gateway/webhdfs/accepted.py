"""The parameters of each operation of WebHDFS.

Source: Apache Hadoop 3.4's documentation of WebHDFS, and what HdfsCLI 2.7, fsspec and Hadoop's Java
client 3.4.1 send.  An HDFS ignores what it does not know; here that is refused, since most of it
is a slip of the pen, but for what a client sends of its own accord.
"""

from __future__ import annotations

from railyard.cluster.accepted import Accepted, Entry, idle, refused, used

_NO_BUFFER = idle("bytes move in pieces of the gateway's own size")
_NO_REDIRECT = used("true: the address of the second step comes as JSON instead of a redirect")
_OTHER_NODES = idle("another replica is read, or written to, where a node fails")
_UNMASKED = idle("permission has the umask applied; the other is for access lists")
_RANGE = {"offset": used("bytes to skip"), "length": used("bytes at most")}
_PERMISSION = used("octal digits, as of chmod")
_REPLICATION = used("replicas; above the number of nodes, so many")
_TEMPDIR = idle("fsspec's own setting, which it sends along")
_KIND_OF_TOKEN = refused("tokens are of this gateway, and of its kind")
_NOT_ENFORCED = idle("permissions are shown, not enforced")

#: Of each operation, besides those of all.
_OWN: dict[str, dict[str, Entry]] = {
    "OPEN": {
        **_RANGE,
        "buffersize": _NO_BUFFER,
        "noredirect": _NO_REDIRECT,
        "excludedatanodes": _OTHER_NODES,
    },
    "CREATE": {
        "overwrite": used("true: a file in the way is replaced"),
        "createflag": used("create, overwrite or both, instead of overwrite"),
        "createparent": used("false: the folder must exist"),
        "blocksize": used("bytes of its blocks: a multiple of 512, at most the topology's"),
        "replication": _REPLICATION,
        "permission": _PERMISSION,
        "noredirect": _NO_REDIRECT,
        "unmaskedpermission": _UNMASKED,
        "buffersize": _NO_BUFFER,
        "excludedatanodes": _OTHER_NODES,
        "tempdir": _TEMPDIR,
        "permissions": refused("need permission, in octal digits"),
        "storagepolicy": refused("all disks are of one kind"),
        "ecpolicy": refused("blocks have replicas"),
    },
    "APPEND": {
        "noredirect": _NO_REDIRECT,
        "buffersize": _NO_BUFFER,
        "excludedatanodes": _OTHER_NODES,
        "tempdir": _TEMPDIR,
        "overwrite": idle("fsspec sends those of its CREATE again"),
        "replication": idle("the file has its own; fsspec sends those of its CREATE again"),
    },
    "CONCAT": {"sources": used("the files whose blocks are moved, with commas")},
    "TRUNCATE": {"newlength": used("bytes that stay")},
    "GETFILECHECKSUM": {"noredirect": _NO_REDIRECT},
    "MKDIRS": {"permission": _PERMISSION, "unmaskedpermission": _UNMASKED},
    "RENAME": {
        "destination": used("the new path"),
        "renameoptions": used("NONE or OVERWRITE: errors instead of false"),
    },
    "DELETE": {"recursive": used("true: also a folder that is not empty")},
    "LISTSTATUS_BATCH": {"startafter": used("the name after which the part begins")},
    "SETPERMISSION": {"permission": _PERMISSION},
    "SETOWNER": {"owner": used("the new owner"), "group": used("the new group")},
    "SETTIMES": {
        "modificationtime": used("milliseconds since 1970; -1 leaves it"),
        "accesstime": used("milliseconds since 1970; -1 leaves it"),
    },
    "SETREPLICATION": {"replication": _REPLICATION},
    "CHECKACCESS": {"fsaction": _NOT_ENFORCED},
    "GET_BLOCK_LOCATIONS": _RANGE,
    "GETFILEBLOCKLOCATIONS": _RANGE,
    "GETDELEGATIONTOKEN": {
        "renewer": used("who may renew and cancel it"),
        "service": _KIND_OF_TOKEN,
        "kind": _KIND_OF_TOKEN,
    },
    "RENEWDELEGATIONTOKEN": {"token": used("the token")},
    "CANCELDELEGATIONTOKEN": {"token": used("the token")},
}

PARAMETERS = Accepted(
    "WebHDFS: operations and their parameters",
    "parameter",
    {
        "op": used("the operation"),
        "user.name": used("who asks, and owns what is made"),
        "doas": used("the user in whose place he asks: that one owns what is made"),
        "delegation": used("a delegation token, of the user who asks"),
        "data": used("true: the second step, of which the first one's answer has the address"),
        "namenoderpcaddress": idle("an HDFS's own, in addresses of second steps"),
        **{f"{op} {name}": entry for op, own in _OWN.items() for name, entry in own.items()},
    },
)
