"""Operations of HDFS that the block store has not got, refused as an HDFS without them does it."""

from __future__ import annotations

from railyard.gateway.http.errors import RemoteError

_ACLS = (
    "AclException",
    "The ACL operation has been rejected.  Support for ACLs has been disabled by setting "
    "dfs.namenode.acls.enabled to false.",
)
_XATTRS = (
    "IOException",
    "The XAttr operation has been rejected.  Support for XAttrs has been disabled by setting "
    "dfs.namenode.xattrs.enabled to false.",
)
_SNAPSHOTS = ("SnapshotException", "Directory is not a snapshottable directory: {path}")
_LINKS = ("UnsupportedOperationException", "Symlinks not supported")

#: {(verb, operation): (exception, message)}
REFUSED: dict[tuple[str, str], tuple[str, str]] = {
    **{
        ("PUT", name): _ACLS
        for name in (
            "MODIFYACLENTRIES",
            "REMOVEACLENTRIES",
            "REMOVEDEFAULTACL",
            "REMOVEACL",
            "SETACL",
        )
    },
    **{("GET", name): _XATTRS for name in ("GETXATTRS", "LISTXATTRS")},
    **{("PUT", name): _XATTRS for name in ("SETXATTR", "REMOVEXATTR")},
    **{
        ("PUT", name): _SNAPSHOTS
        for name in ("ALLOWSNAPSHOT", "DISALLOWSNAPSHOT", "CREATESNAPSHOT", "RENAMESNAPSHOT")
    },
    **{
        ("GET", name): _SNAPSHOTS
        for name in ("GETSNAPSHOTDIFF", "GETSNAPSHOTDIFFLISTING", "GETSNAPSHOTLIST")
    },
    ("DELETE", "DELETESNAPSHOT"): _SNAPSHOTS,
    ("PUT", "CREATESYMLINK"): _LINKS,
}


def refusal(verb: str, operation: str, path: str) -> RemoteError | None:
    """Why an operation of HDFS is refused; None for one that is not known to be one."""
    told = REFUSED.get((verb, operation))
    if told is None:
        return None
    exception, message = told
    status = 400 if exception == "UnsupportedOperationException" else 403
    return RemoteError(status, exception, message.format(path=path))
