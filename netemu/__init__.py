"""The network: its fluid model, flow schedulers and circuits, the emulator, and its clients.

Not here: jobs, tasks and blocks; a flow has a source, a destination and a size.
Open ``messages`` first, then ``fabric``.
"""
