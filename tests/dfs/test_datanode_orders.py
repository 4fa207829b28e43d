"""Orders of the NameNode that a DataNode cannot carry out."""

import pytest

from cluster.runfolder import RunFolder
from cluster.transport import Transport
from dfs.blockfile import blocks_folder
from dfs.datanode.server import BlockServer
from dfs.messages import DeleteReplicas
from tests.dfs.simulated import topology


@pytest.fixture
def transport(tmp_path_factory):
    transport = Transport(RunFolder.create(tmp_path_factory.mktemp("d")))
    yield transport
    transport.close()
    transport.folder.remove()


def test_a_replica_that_cannot_be_deleted_does_not_end_the_datanode(transport):
    told = []
    server = BlockServer(transport, topology(), "r0", None, told.append)
    folder = blocks_folder(transport.folder, "r0n0")
    (folder / "b1").mkdir()  # nothing that unlink removes
    (folder / "b2").write_bytes(b"")
    server.delete(DeleteReplicas(node="r0n0", blocks=(1, 2, 3)))
    assert [(fact.node, fact.blocks) for fact in told] == [("r0n0", (2, 3))]
    assert (folder / "b1").is_dir()
