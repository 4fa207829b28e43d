"""Messages between clients, the NameNode and the DataNodes.

Not here: bulk bytes, which travel as ``netemu.client.transfer`` says.
Open ``files`` first.

All ``stored_`` fields are real bytes.  A client outside the cluster has the node None.

    client ──files: namespace, locations──► NameNode ◄──datanodes: facts, reports── DataNode
    client ──blocks: WriteBlock, ReadBlock──► DataNode ◄──datanodes: commands── NameNode
"""
