"""The options of each command of ``hadoop fs``; the commands look theirs up here."""

from __future__ import annotations

from railyard.cluster.accepted import Accepted, Entry, idle, refused, used

#: {command: the one whose options it has}
_ALIASES = {
    "lsr": "ls",
    "text": "cat",
    "copyToLocal": "get",
    "copyFromLocal": "put",
    "moveFromLocal": "put",
    "chown": "chmod",
    "chgrp": "chmod",
}
_BELOW = used("folders and all that is in them")
_FORCE = used("what is there is replaced")
_HUMAN = used("sizes in units of 1024")
_VERIFIED = idle("what is read is verified, always")

OPTIONS = Accepted(
    "hadoop fs: options of its commands",
    "option of hadoop fs",
    {
        "ls -C": used("paths alone"),
        "ls -R": _BELOW,
        "ls -S": used("the largest first"),
        "ls -d": used("a folder itself, not its entries"),
        "ls -e": refused("there is no erasure coding"),
        "ls -h": _HUMAN,
        "ls -q": idle("all letters of names can be printed"),
        "ls -r": used("the other way round"),
        "ls -t": used("the latest first"),
        "ls -u": used("times of access"),
        "find -a": idle("all conditions hold anyway"),
        "find -and": idle("all conditions hold anyway"),
        "find -iname": used("names that match, in capitals or not"),
        "find -name": used("names that match"),
        "find -print": idle("names are printed anyway"),
        "find -print0": used("a null byte after each name"),
        "du -h": _HUMAN,
        "du -s": used("one sum for each path"),
        "du -v": used("a heading"),
        "du -x": idle("there are no snapshots"),
        "df -h": _HUMAN,
        "count -h": _HUMAN,
        "count -q": used("quotas, too"),
        "count -u": used("quotas alone"),
        "count -v": used("a heading"),
        "count -x": idle("there are no snapshots"),
        "test -d": used("whether it is a folder"),
        "test -e": used("whether it is there"),
        "test -f": used("whether it is a file"),
        "test -r": used("whether it is there: all may read it"),
        "test -s": used("whether it is not empty"),
        "test -w": used("whether it is there: all may write it"),
        "test -z": used("whether it is an empty file"),
        "checksum -v": refused("-stat %o has the size of blocks"),
        "getfacl -R": _BELOW,
        "cat -ignoreCrc": _VERIFIED,
        "tail -f": refused("a file is there once it is whole"),
        "getmerge -nl": used("a line end after each file"),
        "getmerge -skip-empty-file": used("no line end for an empty file"),
        "get -crc": refused("no .crc files are written"),
        "get -f": _FORCE,
        "get -ignoreCrc": _VERIFIED,
        "get -p": used("times and permission are kept"),
        "put -d": idle("a file is there once it is whole, in any case"),
        "put -f": _FORCE,
        "put -l": idle("all blocks are on disks"),
        "put -p": used("times, owner, group and permission are kept"),
        "appendToFile -n": idle("how a file is cut into blocks is the store's affair"),
        "touch -c": used("no file is made"),
        "cp -d": idle("a file is there once it is whole, in any case"),
        "cp -f": _FORCE,
        "cp -p": used("times, owner, group and permission are kept"),
        "mkdir -p": used("with its parents, and it may be there"),
        "rm -R": _BELOW,
        "rm -f": used("what is not there is no error"),
        "rm -r": _BELOW,
        "rm -safely": refused("nothing is asked before a folder is removed"),
        "rm -skipTrash": idle("there is no trash"),
        "rmdir --ignore-fail-on-non-empty": used("a folder with entries is no error"),
        "setrep -R": idle("it holds for all that is below a folder anyway"),
        "setrep -w": used("waits until there are as many replicas"),
        "chmod -R": _BELOW,
        "truncate -w": idle("it is done when the command ends"),
        "expunge -immediate": idle("there is no trash"),
    },
)


def options_of(command: str) -> dict[str, Entry]:
    """{option without its dash: what it does} of a command."""
    start = f"{_ALIASES.get(command, command)} -"
    return {
        name.removeprefix(start): entry
        for name, entry in OPTIONS.entries.items()
        if name.startswith(start)
    }


def check_option(command: str, option: str) -> None:
    """Raise ``UsageError`` for an option that is refused."""
    OPTIONS.check(f"{_ALIASES.get(command, command)} -{option}", f"-{command} -{option}")
