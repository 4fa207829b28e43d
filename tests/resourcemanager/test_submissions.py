"""The files of jobs that were submitted, on disks that can't be written."""

from railyard.jobs.model import StageSpec
from railyard.resourcemanager.process.messages import SubmitJob
from railyard.resourcemanager.process.restart.submissions import Submissions
from tests.resourcemanager.standins import PACKAGE


def test_a_disk_that_cannot_be_written_ends_nothing(tmp_path):
    place = tmp_path / "jobs"
    place.touch()  # no folder: each change below it fails, as on a read-only disk
    submissions = Submissions(place, "safe")
    submissions.keep("j1", submitted())
    submissions.forget("j1")
    assert submissions.all() == {}


def test_what_is_kept_is_there_until_it_is_forgotten(tmp_path):
    Submissions(tmp_path, "safe").keep("j1", submitted())
    assert Submissions(tmp_path, "safe").all() == {"j1": submitted()}
    Submissions(tmp_path, "safe").forget("j1")
    assert Submissions(tmp_path, "safe").all() == {}


def submitted():
    return SubmitJob(name="job", package=PACKAGE, user="ann", stages=(StageSpec(name="m"),))
