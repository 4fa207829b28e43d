"""A job while the disk is full for a moment: it takes longer, and is verified."""

import json
import time

from tests.fulldisk import small_disk
from tests.waiting import wait_for

SMALL = ("--topology", "unlimited-2x2")


def test_a_job_outlives_a_disk_that_is_full_for_a_moment(railyard, tmp_path):
    with small_disk(railyard.home, 2**25) as disk:
        railyard.ok("up", *SMALL)
        log = railyard.current() / "jobs" / "events.jsonl"
        written_bytes = log.stat().st_size
        process = railyard.start("run", "wordcount", "--size", "4MB", "--json", tmp_path / "s.json")
        try:
            # a disk that is full when room is looked for is another matter: that is refused
            wait_for(lambda: log.stat().st_size > written_bytes, 30, "a job is there")
            for _ in range(3):  # while its input is made, while it runs, while it is checked
                disk.fill()
                time.sleep(0.7)
                disk.free()
                time.sleep(0.7)
            out, errors = process.communicate(timeout=90)
            assert process.returncode == 0, errors
            assert "as counted independently" in out
            assert json.loads((tmp_path / "s.json").read_text())["verified"] is True
        finally:
            process.kill()
            process.wait()
            railyard.ok("down")
