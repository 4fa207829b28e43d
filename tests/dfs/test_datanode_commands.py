"""Commands of the NameNode that a DataNode cannot carry out."""

import errno

import zmq

from railyard.dfs.blockfile import blocks_folder
from railyard.dfs.datanode.server import BlockServer
from railyard.dfs.messages.datanodes import DeleteReplicas, ReplicateBlock, ReplicationFailed
from tests.dfs.blocks import write
from tests.dfs.simulated import topology


def test_a_replica_that_cannot_be_deleted_does_not_end_the_datanode(transport):
    reported = []
    server = BlockServer(transport, topology(), "r0", None, reported.append)
    folder = blocks_folder(transport.folder, "r0n0")
    (folder / "b1").mkdir()  # nothing that unlink removes
    (folder / "b2").write_bytes(b"")
    server.delete(DeleteReplicas(node="r0n0", blocks=(1, 2, 3)))
    assert [(fact.node, fact.blocks) for fact in reported] == [("r0n0", (2, 3))]
    assert (folder / "b1").is_dir()


def test_a_copy_that_no_descriptor_is_left_for_fails_and_does_not_end_the_datanode(
    transport, monkeypatch
):
    reported = []
    server = BlockServer(transport, topology(), "r0", None, reported.append)
    write(server._stores["r0n0"], 1, b"block")

    def no_descriptors(*_, **__):
        raise zmq.ZMQError(errno.EMFILE)

    monkeypatch.setattr(transport, "link", no_descriptors)
    server.replicate(ReplicateBlock(block=1, stored_length=5, source="r0n0", target="r1n0"))
    (fact,) = reported
    assert isinstance(fact, ReplicationFailed)
    assert "datanode-r1 cannot be connected to: too many open files" in fact.reason
