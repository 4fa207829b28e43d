"""Forecasts of a workload's jobs, as both clocks have them."""

from railyard.cluster.topology import load_topology
from railyard.jobs.mixes.measured import measured_workload
from railyard.jobs.mixes.mixes import Defaults, read_mix
from railyard.resourcemanager.interface.forecast import forecast_of, predicted_jobs


def jobs(*words):
    mix = read_mix(words, Defaults(size_bytes=10**9), 1)
    return measured_workload(mix, load_topology("flat-4x4"), 1).jobs


def test_a_forecast_has_the_sizes_of_all_stages_and_the_time_by_the_cores_clock():
    [sort] = jobs("terasort,submit=5s,reduces=3")
    forecast = forecast_of(sort, begin_s=100.0)
    assert forecast is not None
    assert (forecast.name, forecast.submit_s) == ("terasort", 105.0)
    maps, reduces = forecast.stages
    assert (maps.name, maps.tasks, maps.input_bytes, maps.output_bytes) == ("m", 4, 10**9, 10**9)
    assert (reduces.tasks, reduces.input_bytes, reduces.reads) == (3, 10**9, ("m",))
    assert forecast_of(sort) != forecast


def test_ad_hoc_jobs_are_not_predicted():
    sent = predicted_jobs(jobs("terasort,recurring=0", "wordcount"))
    assert [job.job for job in sent] == ["wordcount"]
