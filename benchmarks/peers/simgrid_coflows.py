"""Coflows on one big switch in SimGrid, whose flows share links by max-min.

    python simgrid_coflows.py PORTS PORT_BYTES_PER_S < COFLOWS

COFLOWS has a line of JSON each: its arrival in seconds, and (source, destination, bytes) of each
flow.  Printed as JSON: CPU seconds of the simulation, and the mean coflow completion time.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from simgrid import Actor, Comm, Engine, LinkInRoute, NetZone, this_actor

#: No latency, no headers, no windows: as in our network.
_FLUID = ("model:CM02", "bandwidth-factor:1", "latency-factor:0", "TCP-gamma:0", "weight-S:0")
_CROSSTRAFFIC = "crosstraffic:0"  # nor acknowledgements


def main(ports: int, port_bytes_per_s: float) -> None:
    """Simulate them, and print what it cost."""
    settings = [f"--cfg=network/{each}" for each in (*_FLUID, _CROSSTRAFFIC)]
    engine = Engine([sys.argv[0], *settings, "--log=root.thresh:error"])
    hosts = _switch(ports, port_bytes_per_s)
    coflows = [json.loads(line) for line in sys.stdin]
    ccts_s = []

    def coflow(arrival_s, flows):
        Comm.wait_all([Comm.sendto_async(hosts[src], hosts[dst], size) for src, dst, size in flows])
        ccts_s.append(Engine.clock - arrival_s)

    def arrivals():
        for arrival_s, flows in coflows:
            this_actor.sleep_until(arrival_s)
            Actor.create("coflow", hosts[0], coflow, arrival_s, flows)

    Actor.create("arrivals", hosts[0], arrivals)
    begun_s = time.process_time()
    engine.run()
    cpu_s = time.process_time() - begun_s
    json.dump({"cpu_s": cpu_s, "cct_s": statistics.fmean(ccts_s)}, sys.stdout)


def _switch(ports: int, port_bytes_per_s: float) -> list:
    zone = NetZone.create_star_zone("switch")
    hosts = []
    for port in range(ports):
        host = zone.create_host(f"h{port}", "1Gf")
        up, down = (zone.create_link(f"{way}{port}", port_bytes_per_s) for way in ("up", "down"))
        zone.add_route(host.netpoint, None, None, None, [LinkInRoute(up)], False)
        zone.add_route(None, host.netpoint, None, None, [LinkInRoute(down)], False)
        hosts.append(host)
    zone.seal()
    return hosts


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
