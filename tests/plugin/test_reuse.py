"""Worlds that stay up between tests, in real pytest sessions: as good as new, or not used again."""

from __future__ import annotations

import pytest

SKIPPING = """
def skipping(rank):
    import torch, torch.distributed as dist
    if rank == 0:
        dist.all_reduce(torch.ones(2))
"""

BODY = """
import os
import pytest

pids = []

def pid(rank):
    return os.getpid()
"""


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A session of its own, in a process of its own, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "250")
    pytester.makeini("[pytest]\naddopts = --strict-markers --strict-config -p no:cacheprovider")
    return pytester


def test_each_test_has_its_own_ranks_unless_asked_otherwise(session: pytest.Pytester) -> None:
    """The default; and reuse by module, class and session, each no longer than it says."""
    session.makepyfile(
        conftest="seen = {}",
        test_one=BODY
        + """
from conftest import seen

class TestOne:
    def test_a(self, world):
        seen["class"] = world(dp=2).run(pid)

    def test_b(self, world):
        seen["again"] = world(dp=2).run(pid)

def test_c(world):
    seen["module"] = world(dp=2).run(pid)
""",
        test_two=BODY
        + """
from conftest import seen

def test_d(world):
    last = world(dp=2).run(pid)
    same = [seen[name] == last for name in ("class", "again", "module")]
    print("same:", seen["class"] == seen["again"], *same)
""",
    )
    said = {
        scope: session.runpytest_subprocess("-s", f"--world-reuse={scope}").stdout.str()
        for scope in ("test", "class", "module", "session")
    }
    assert "same: False False False False" in said["test"]
    assert "same: True False False False" in said["class"]
    assert "same: True False False False" in said["module"]
    assert "same: True True True True" in said["session"]


def test_a_used_world_is_as_a_new_one(session: pytest.Pytester) -> None:
    """The same random numbers, the name of the running test, groups of the grid: as at the start."""
    session.makepyfile(
        test_it=BODY
        + """
def look(rank):
    import random
    import torch
    from megatron.core import mpu

    return (
        random.random(), torch.rand(3).tolist(), os.environ["PYTEST_CURRENT_TEST"].split("[")[0],
        mpu.get_data_parallel_world_size(), torch.distributed.get_world_size(), len(os.environ),
    )

@pytest.mark.parametrize("n", range(3))
def test_looks(world, n):
    made = world(dp=2)
    pids.append((made.run(pid), made.run(look)))
    ranks, looks = zip(*pids)
    assert len(set(map(tuple, ranks))) == 1
    assert all(each == looks[0] for each in looks)
"""
    )
    session.runpytest_subprocess("--world-reuse=module").assert_outcomes(passed=3)


LEFT = {
    "process group: one of ranks [0, 1] was not destroyed": "torch.distributed.new_group([0, 1])",
    "thread: mine": "threading.Thread(target=time.sleep, args=(60,), name='mine', daemon=True).start()",
    "process: ": "subprocess.Popen(['sleep', '60'])",
    "environment: MY_FLAG set": "os.environ['MY_FLAG'] = '1'",
    "environment: PATH changed": "os.environ['PATH'] = '/'",
    "environment: HOME removed": "del os.environ['HOME']",
    "working directory: /, it was": "os.chdir('/')",
    "default dtype: torch.float64, it was torch.float32": "torch.set_default_dtype(torch.float64)",
    "gradients: False, it was True": "torch.set_grad_enabled(False)",
    "deterministic algorithms: True, it was": "torch.use_deterministic_algorithms(True)",
    "threads of torch: 2, it was 1": "torch.set_num_threads(2)",
    "process group: the default one was destroyed": "torch.distributed.destroy_process_group()",
    "sys.path: ": "sys.path.append('/nowhere')",
    "standard streams: ": "sys.stdout = sys.stderr",
    "signal handlers: ": "signal.signal(signal.SIGUSR1, signal.SIG_IGN)",
}


def test_a_world_with_something_left_in_it_is_not_used_again(session: pytest.Pytester) -> None:
    """Each thing that can be left is seen, and named at the end, and the next test has new ranks."""
    session.makepyfile(
        test_it=BODY
        + f"""
os.environ["HOME"] = "/"
LEFT = {LEFT!r}

@pytest.mark.parametrize("action", LEFT.values())
def test_leaves(world, action):
    def program(rank):
        if rank == 1 or "group" in action:
            exec("import os, signal, subprocess, sys, threading, time, torch\\n" + action)
        return os.getpid()
    made = world(dp=2)
    pids.append(made.run(program))

def test_nobody_had_used_ranks():
    assert len({{pid for both in pids for pid in both}}) == 2 * len(LEFT)

def test_clean(world):
    pids.append(world(dp=2).run(pid))

def test_clean_again(world):
    assert world(dp=2).run(pid) == pids[-1]
"""
    )
    result = session.runpytest_subprocess("--world-reuse=module", "-n", "0")
    result.assert_outcomes(passed=len(LEFT) + 3)
    said = result.stdout.str()
    assert "worlds that were not used again" in said
    for each in LEFT:
        assert f"world(dp=2, cp=1): {each}" in said
    assert said.count("world(dp=2, cp=1): ") == len(LEFT)


def test_work_that_nobody_waits_for_is_left(session: pytest.Pytester) -> None:
    """A world in which a functional collective is under way is not handed on."""
    session.makepyfile(
        test_it=BODY
        + """
def program(rank):
    import torch
    import torch.distributed._functional_collectives as functional
    global kept
    kept = functional.all_reduce(torch.ones(2), "sum", torch.distributed.group.WORLD)
    return os.getpid()

def test_first(world):
    pids.append(world(dp=2, record=False).run(program))  # recorded, it would be a finding

def test_second(world):
    assert set(world(dp=2, record=False).run(pid)).isdisjoint(pids[0])
"""
    )
    result = session.runpytest_subprocess("--world-reuse=module")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_first: *work in flight: 1 (on every rank)"])


def test_other_arguments_and_failed_worlds_are_other_ranks(session: pytest.Pytester) -> None:
    """Reuse is for the very same world: by options, by environment, and only while it is whole."""
    session.makepyfile(
        test_it=SKIPPING
        + BODY
        + """
def test_first(world):
    pids.extend(world(dp=2).run(pid))

@pytest.mark.parametrize("options", [{"dp": 2, "seed": 5}, {"cp": 2}, {"dp": 2, "reuse": False}])
def test_options(world, options):
    assert set(world(**options).run(pid)).isdisjoint(pids)

def test_environment(world, monkeypatch):
    monkeypatch.setenv("MY_FLAG", "1")
    assert set(world(dp=2).run(pid)).isdisjoint(pids)

def test_two_at_once(world):
    both = [world(dp=2).run(pid) for _ in range(2)]
    assert pids in both and both[0] != both[1]

last = []

def test_a_failing_assertion_costs_nothing(world):
    last.append(world(dp=2).run(pid))
    assert last == []

def test_after_it(world):
    assert world(dp=2).run(pid) == last[0]

def test_fault(world):
    world(dp=2).run(skipping)

def test_fault_again(world):
    world(dp=2).run(skipping)

def test_new(world):
    assert set(world(dp=2).run(pid)).isdisjoint(pids)
"""
    )
    result = session.runpytest_subprocess("--world-reuse=session")
    result.assert_outcomes(passed=8, failed=3)
    assert "not used again" not in result.stdout.str()  # a failed one has a report of its own


def test_suites_reuse_worlds_too(session: pytest.Pytester) -> None:
    """The checks of a suite start as few worlds as there are shapes."""
    session.makepyfile(
        test_it=BODY
        + """
from harness.suites import whitening

def whiten(values, mask, group=None):
    import torch, torch.distributed as dist
    sums = torch.stack([(values * mask).sum(), (values.square() * mask).sum(), mask.sum()])
    dist.all_reduce(sums, group=group)
    mean = sums[0] / sums[2]
    variance = (sums[1] / sums[2] - mean.square()) * sums[2] / (sums[2] - 1)
    return (values - mean) * torch.rsqrt(variance + 1e-8)

from harness.launch._forkserver import ForkServer

launched, real = [], ForkServer.launch

def launch(self, spec):
    launched.append(spec.layout.world_size)
    return real(self, spec)

ForkServer.launch = launch
LAWS = ["same_value_on_every_rank", "mask_respected", "input_not_mutated"]

@whitening.parametrize(whiten, worlds=[(1, 2)], laws=LAWS)
def test_whiten(check):
    check()

def test_count():
    print("worlds of two:", launched.count(2))
"""
    )
    for scope, worlds in (("test", 3), ("module", 1)):
        result = session.runpytest_subprocess("-s", f"--world-reuse={scope}")
        result.assert_outcomes(passed=4)
        assert f"worlds of two: {worlds}" in result.stdout.str()


def test_a_wider_fixture_gives_new_ranks_after_dirt(session: pytest.Pytester) -> None:
    """The world of a module is clean at the beginning of each of its tests."""
    session.makepyfile(
        test_it=BODY
        + """
def test_first(module_world):
    pids.append(module_world(dp=2).run(pid))

def test_dirty(module_world):
    def program(rank):
        os.environ["MY_FLAG"] = "1"
        return os.getpid()
    assert module_world(dp=2).run(program) == pids[0]

def test_clean(module_world):
    assert set(module_world(dp=2).run(pid)).isdisjoint(pids[0])
"""
    )
    result = session.runpytest_subprocess()
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*test_clean: world(dp=2, cp=1): environment: MY_FLAG set*"])


def test_workers_keep_within_the_budget(session: pytest.Pytester) -> None:
    """Four workers with worlds of two and room for two: one world at a time, and all pass."""
    session.makepyfile(
        test_it="""
import time
import pytest

@pytest.mark.parametrize("n", range(8))
def test_it(world, n, tmp_path_factory):
    log = tmp_path_factory.getbasetemp().parent / "log"
    made = world(dp=2)
    def stay(rank):
        time.sleep(0.05)
    with open(log, "a") as stream:
        stream.write("+")
    made.run(stay)
    with open(log, "a") as stream:
        stream.write("-")
    made.close()
"""
    )
    result = session.runpytest_subprocess("-n", "4", "--world-ranks=2", "--basetemp=base")
    result.assert_outcomes(passed=8)
    (log,) = session.path.rglob("log")
    assert log.read_text() == "+-" * 8


def test_a_dirty_world_of_a_worker_is_told_too(session: pytest.Pytester) -> None:
    """What is left in a world crosses from a worker to the terminal."""
    session.makepyfile(
        test_it="""
import os

def test_it(world):
    world(dp=2).run(lambda rank: os.environ.update(MY_FLAG="1"))
"""
    )
    result = session.runpytest_subprocess("-n", "1", "--world-reuse=session")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*test_it: world(dp=2, cp=1): environment: MY_FLAG set (on every rank)"]
    )


def test_a_rank_that_dies_between_tests_costs_the_world_only(session: pytest.Pytester) -> None:
    """A world that waits for its next test and loses a rank is not handed on."""
    session.makepyfile(
        test_it=BODY
        + """
import signal
import time

def test_first(world):
    pids.extend(world(dp=2).run(pid))

def test_in_between():
    os.kill(pids[1], signal.SIGKILL)
    time.sleep(0.5)

def test_next(world):
    assert set(world(dp=2).run(pid)).isdisjoint(pids)
"""
    )
    session.runpytest_subprocess("--world-reuse=module").assert_outcomes(passed=3)
