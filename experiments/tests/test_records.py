"""Records of runs: identity, files of JSON, Parquet, views, and the committed records."""

import json
import math

import numpy as np
import pytest
from singularbayes_experiments import records
from singularbayes_experiments.records import RESULTS, Run, connect, identity, pack, read, write


def made(seed=2, nll=0.25, **changes):
    facts = {"experiment": "toy", "task": "toy", "method": "low_rank", "preset": "protocol", "stage": "result"}
    facts |= {"settings": {"rank": 16, "beta": 0.1}, "metrics": {"nll": nll, "rmse": 0.5 + seed, "parameters": 7203}}
    facts |= {"machine": {"cpu": "one", "versions": {"keras": "3"}}, "origin": "run toy", "commit": "abc"}
    facts |= {"arrays": {"bands/mean": [[0.0, 0.5, 1.0], [3.0, 1.0, 2.0 + seed]], "spectra/first": [2.0, 1.0]}}
    return Run(seed=seed, **facts | changes)


def test_identity_has_all_that_tells_runs_apart_and_nothing_else():
    own = made()
    other_order = made(settings={"beta": 0.1, "rank": 16}, metrics={"nll": 9.0}, commit=None, preset="paper")
    assert other_order.run == own.run == identity("toy", "toy", "low_rank", 2, "result", own.settings)
    changes = [{"experiment": "uci"}, {"task": "yacht"}, {"method": "swag"}, {"seed": 3}, {"stage": "tuning"}]
    changes += [{"settings": {"rank": 16, "beta": 0.2}}, {"settings": {"rank": 16}}]
    assert len({own.run, *(made(**each).run for each in changes)}) == 1 + len(changes)


def test_write_leaves_a_whole_file_or_none(tmp_path, monkeypatch):
    path = write(made(), tmp_path)
    assert path.name == f"{made().run}.json" and [one.text() for one in read(tmp_path)] == [made().text()]
    with monkeypatch.context() as broken:
        broken.setattr(records.Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(OSError, match="killed"):
            write(made(3), tmp_path)
    assert [one.seed for one in read(tmp_path)] == [2]
    assert connect(tmp_path).execute("SELECT count(*) FROM runs").fetchone() == (1,)


def test_packed_runs_read_as_they_were_written(tmp_path):
    odd = made(5, math.nan, configuration="low_rank 3", counts=False, finished="2026-11-18T20:33:16+00:00")
    for run in (made(), odd):
        write(run, tmp_path / "out")
    assert pack(tmp_path / "out", tmp_path / "kept") == 2
    packed, loose = connect(tmp_path / "kept"), connect(tmp_path / "out")
    for run in (made(), odd):
        assert records.find(packed, run.run).text() == records.find(loose, run.run).text()
    back = records.find(packed, odd.run)
    assert back.metrics["parameters"] == 7203 and math.isnan(back.metrics["nll"]) and not back.counts
    assert back.settings == odd.settings and back.machine == odd.machine and back.finished == odd.finished
    np.testing.assert_array_equal(back.arrays["bands/mean"], odd.arrays["bands/mean"])
    np.testing.assert_array_equal(back.arrays["spectra/first"], [[0.0, 1.0], [2.0, 1.0]])


def test_packing_twice_changes_nothing_and_a_different_record_raises(tmp_path):
    out, kept = tmp_path / "out", tmp_path / "kept"
    write(made(), out)
    pack(out, kept)
    before = {path.name: path.read_bytes() for path in kept.rglob("*.parquet")}
    assert pack(out, kept) == 0
    assert {path.name: path.read_bytes() for path in kept.rglob("*.parquet")} == before
    assert set(before) == {"runs.parquet", "metrics.parquet", "bands.parquet", "spectra.parquet"}
    write(made(nll=0.26), out)
    with pytest.raises(ValueError, match="two different ones of 'toy-low_rank-2-"):
        pack(out, kept)
    assert {path.name: path.read_bytes() for path in kept.rglob("*.parquet")} == before


def test_views_join_packed_and_loose_runs(tmp_path):
    out, kept = tmp_path / "out", tmp_path / "kept"
    write(made(2, 0.5), out)
    pack(out, kept)
    write(made(3, 0.75), out)  # beside the packed one, which lies there too
    mean = "SELECT count(*), avg(value), avg(seed) FROM scores WHERE metric = 'nll'"
    assert connect(kept, out).execute(mean).fetchone() == (2, 0.625, 2.5)
    with pytest.raises(records.duckdb.ConstraintException):
        records.add(connect(kept), made(4, stage="results"))


@pytest.fixture(scope="module")
def committed():
    return connect(RESULTS)


def test_committed_records_have_their_schema(committed):
    experiments = "toy mnist fashion_mnist cnn sst2 beijing icu mimic3 uci cifar10 adapters tables certificates "
    experiments = set((experiments + "detectors students monitoring").split())
    found = {name for (name,) in committed.execute("SELECT DISTINCT experiment FROM runs").fetchall()}
    assert found == experiments
    without = committed.execute("SELECT count(*) FROM runs ANTI JOIN metrics USING (run) WHERE counts").fetchone()
    orphans = committed.execute("SELECT count(*) FROM metrics ANTI JOIN runs USING (run)").fetchone()
    curves = committed.execute("SELECT count(*) FROM arrays ANTI JOIN runs USING (run)").fetchone()
    assert without == orphans == curves == (0,)


def test_committed_records_have_the_identity_of_their_settings(committed):
    every = committed.execute("SELECT run, experiment, task, method, seed, stage, settings FROM runs").fetchall()
    assert all(run == identity(*facts, json.loads(settings)) for run, *facts, settings in every)


def test_one_configuration_of_a_method_counts_for_the_results_of_the_protocol(committed):
    several = committed.execute(
        "SELECT task, method FROM runs WHERE preset = 'protocol' AND stage = 'result' AND counts "
        "AND configuration IS NOT NULL AND experiment != 'adapters' "
        "GROUP BY experiment, task, method HAVING count(DISTINCT configuration) > 1"
    )
    assert several.fetchall() == []
