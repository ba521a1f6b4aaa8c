"""The plugin in real pytest sessions: fixtures, options, outcomes, reports."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# torch is imported in the ranks only: these sessions start the faster for it.
PROGRAM = """
def total(rank):
    import torch, torch.distributed as dist
    value = torch.ones(2)
    dist.all_reduce(value)
    return value[0].item()

def skipping(rank):
    import torch, torch.distributed as dist
    print("before the fault", rank)
    if rank == 0:
        dist.all_reduce(torch.ones(2))
"""


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A session of its own, in a process of its own, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "250")
    pytester.makeini("[pytest]\naddopts = --strict-markers --strict-config -p no:cacheprovider")
    return pytester


def _run(session: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    session.makepyfile(test_it=PROGRAM + body)
    return session.runpytest_subprocess(*options)


def test_the_world_fixture_runs_a_function_on_every_rank(session: pytest.Pytester) -> None:
    """The fixture, parametrized over the factorizations of a world size."""
    result = _run(
        session,
        """
import pytest
from harness import factorizations

@pytest.mark.parametrize(("dp", "cp"), factorizations(4))
def test_it(world, dp, cp):
    assert world(dp=dp, cp=cp).run(total) == [4.0] * 4
""",
    )
    result.assert_outcomes(passed=3)


def test_a_fault_fails_the_test_with_the_verdict_in_the_summary(session: pytest.Pytester) -> None:
    """The verdict is the message, in the short summary too; what ranks printed has sections."""
    result = _run(session, "\ndef test_it(world):\n    world(dp=2).run(skipping)\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *WorldError: rank-dependent skip: rank 1 of world [[]0, 1[]] never made call 1*",
            "*Captured stdout of rank 0 call*",
            "before the fault 0",
            "*Captured stdout of rank 1 call*",
            "before the fault 1",
            "FAILED *test_it - harness.WorldError: rank-dependent skip: rank 1*",
        ]
    )
    assert "harness/world.py" not in result.stdout.str()


def test_wider_fixtures_share_a_world_until_it_fails(session: pytest.Pytester) -> None:
    """The same arguments give the same ranks; after a fault they are new."""
    result = _run(
        session,
        """
import os
pids = []

def pid(rank):
    return os.getpid()

def test_first(module_world):
    pids.append(module_world(dp=2).run(pid))

def test_same(module_world):
    assert module_world(dp=2).run(pid) == pids[0]
    assert module_world(dp=1).run(pid) != pids[0][:1]

def test_fault(module_world):
    module_world(dp=2).run(skipping)

def test_new(module_world):
    assert set(module_world(dp=2).run(pid)).isdisjoint(pids[0])
""",
    )
    result.assert_outcomes(passed=3, failed=1)


def test_outcomes_inside_a_rank_mean_what_they_say(session: pytest.Pytester) -> None:
    """skip, xfail, fail and importorskip, on all ranks or on one that nobody waits for."""
    result = _run(
        session,
        """
import pytest

def test_skip(world):
    def program(rank):
        pytest.skip("no reason")
    world(dp=2).run(program)

def test_skip_on_one(world):
    def program(rank):
        if rank == 1:
            pytest.skip("only one")
    world(dp=2).run(program)

def test_xfail(world):
    def program(rank):
        pytest.xfail("known")
    world(dp=2).run(program)

def test_importorskip(world):
    world(dp=2).run(lambda rank: pytest.importorskip("not_there_at_all"))

def test_fail(world):
    def program(rank):
        if rank == 1:
            pytest.fail("on purpose")
    world(dp=2).run(program)

def test_skip_while_others_wait(world):
    def program(rank):
        if rank == 1:
            pytest.skip("leaving")
        import torch.distributed as dist
        dist.barrier()
    world(dp=2).run(program)
""",
        "-rfs",
    )
    result.assert_outcomes(skipped=3, xfailed=1, failed=2)
    result.stdout.fnmatch_lines(["*SKIPPED*no reason*"])
    result.stdout.fnmatch_lines(["*SKIPPED*rank 1: only one*"])
    result.stdout.fnmatch_lines(["FAILED *test_fail - harness.WorldError: *on purpose*"])
    result.stdout.fnmatch_lines(["FAILED *test_skip_while_others_wait - *rank 1*leaving*"])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--world-timeout=soon", "--world-timeout: 'soon' is not a number of seconds above 0"),
        ("--world-timeout=-3", "--world-timeout: '-3' is not a number of seconds above 0"),
        ("--world-backend=nccl", "--world-backend: 'nccl' is not supported"),
        ("--world-preload=1/2", "--world-preload: '1/2' is not the name of a module"),
        ("--world-env=FLAG", "--world-env: 'FLAG' is not NAME=VALUE"),
        ("--world-seed=x", "--world-seed: 'x' is not a whole number from 0"),
        ("--world-stub-modules=a..b", "--world-stub-modules: 'a..b' is not the name of a module"),
        ("--world-mpu=nowhere", "--world-mpu: 'nowhere' is neither"),
        ("--world-reuse=ever", "--world-reuse: 'ever' is none of test, class, module, session"),
        ("--world-ranks=none", "--world-ranks: 'none' is neither \"auto\" nor a number of ranks"),
    ],
)
def test_a_bad_option_gives_one_clear_error(
    session: pytest.Pytester, option: str, message: str
) -> None:
    """The error names the option and the fix; no test runs."""
    result = _run(session, "\ndef test_it(): pass\n", option)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines([f"ERROR: {message}*".replace("[", "[[]")])
    assert "Traceback" not in result.stderr.str()


def test_a_bad_ini_value_names_the_ini_option(pytester: pytest.Pytester) -> None:
    """The same for the ini file."""
    pytester.makeini("[pytest]\nworld_timeout = never")
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_subprocess()
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(["ERROR: ini option world_timeout: 'never' is not a number*"])


def test_argument_wins_over_command_line_wins_over_ini(pytester: pytest.Pytester) -> None:
    """The deadline in force, seen in the timeout of the default group."""
    pytester.makeini("[pytest]\nworld_timeout = 50\nworld_env = WHICH=ini\nworld_seed = 3")
    pytester.makepyfile(
        """
import os

def seen(rank):
    import torch, torch.distributed as dist
    options = dist.group.WORLD._get_backend(torch.device("cpu")).options
    return options._timeout.total_seconds(), os.environ["WHICH"]

def test_options(world):
    assert world().run(seen) == [(40.0, "command line")]
    assert world(timeout=30, env={"WHICH": "argument"}).run(seen) == [(30.0, "argument")]
"""
    )
    options = ["--world-timeout=40", "--world-env=WHICH=command line"]
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["collectives: world_timeout=40*"])


def test_preloaded_modules_are_there_before_the_fork(session: pytest.Pytester) -> None:
    """A module of world_preload is imported once, in the server."""
    session.makepyfile(heavy="import os\nPID = os.getpid()\n")
    result = _run(
        session,
        """
import os

def test_it(world):
    def program(rank):
        import heavy
        return heavy.PID, os.getppid()
    (one, server), (two, _) = world(dp=2).run(program)
    assert one == two == server
""",
        "--world-preload=heavy",
    )
    result.assert_outcomes(passed=1)


def test_a_preload_that_fails_is_named(session: pytest.Pytester) -> None:
    """The error at the first world names the option and the module."""
    result = _run(
        session,
        "\ndef test_it(world):\n    world().run(total)\n",
        "--world-preload=not_there_at_all",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*RuntimeError: world_preload: the module 'not_there_at_all' cannot be imported*"]
    )


def test_stub_modules_let_untested_imports_pass(session: pytest.Pytester) -> None:
    """world_stub_modules provides empty packages; using one says what it is."""
    result = _run(
        session,
        """
def test_it(world):
    def program(rank):
        import flash_attn.layers
        try:
            flash_attn.layers.rotary
        except (AttributeError, ImportError) as error:
            return str(error)
    assert "world_stub_modules" in world().run(program)[0]
""",
        "--world-stub-modules=flash_attn.layers",
    )
    result.assert_outcomes(passed=1)


def test_the_mpu_stub_can_be_had_at_the_top_of_a_test_module(session: pytest.Pytester) -> None:
    """With world_mpu=everywhere; without it the import fails as it would without Megatron."""
    pytest.importorskip("torch")
    body = """
from megatron.core import mpu

def test_it(world):
    def program(rank):
        return mpu.get_context_parallel_rank()
    assert world(cp=2).run(program) == [0, 1]
"""
    _run(session, body, "--world-mpu=everywhere").assert_outcomes(passed=1)
    _run(session, body).assert_outcomes(errors=1)


def test_with_capture_off_output_is_shown_by_rank(session: pytest.Pytester) -> None:
    """-s shows what ranks print, each line with its rank."""
    result = _run(
        session, "\ndef test_it(world):\n    world(dp=2).run(lambda rank: print('hi'))\n", "-s"
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines_random(["*[[]rank 0[]] hi", "*[[]rank 1[]] hi"])


def test_xdist_workers_each_have_ranks_of_their_own(session: pytest.Pytester) -> None:
    """-n 2: results, verdicts and sections arrive through the workers."""
    pytest.importorskip("xdist")
    body = """
import pytest

@pytest.mark.parametrize("dp", [1, 2, 3])
def test_good(world, dp):
    assert world(dp=dp).run(total) == [float(dp)] * dp

def test_bad(world):
    world(dp=2).run(skipping)
"""
    result = _run(session, body, "-n", "2")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*Captured stdout of rank 1 call*"])


def test_junit_has_the_verdict(session: pytest.Pytester) -> None:
    """The first line of the failure in JUnit's XML is the verdict."""
    body = "\ndef test_it(world):\n    world(dp=2).run(skipping)\n"
    _run(session, body, "--junitxml=out.xml")
    text = (Path(session.path) / "out.xml").read_text()
    assert "harness.WorldError: rank-dependent skip: rank 1 of world" in text


def test_options_are_in_the_help(session: pytest.Pytester) -> None:
    """--help explains each option."""
    text = session.runpytest_subprocess("--help").stdout.str()
    for name in ("timeout", "backend", "preload", "env", "seed", "stub-modules", "mpu"):
        assert f"--world-{name}=" in text


def test_an_unused_plugin_imports_no_torch(session: pytest.Pytester) -> None:
    """A session without worlds pays nothing for the plugin."""
    result = _run(session, "", "--version")
    assert 0 == result.ret
    session.makepyfile(
        test_light="""
import sys

def test_it():
    assert "harness.plugin" in sys.modules
    assert "torch" not in sys.modules
    assert "cloudpickle" not in sys.modules
"""
    )
    session.runpytest_subprocess("test_light.py").assert_outcomes(passed=1)


def test_a_users_own_multiprocessing_is_not_disturbed(session: pytest.Pytester) -> None:
    """The server is the harness's own: fork, spawn and forkserver of user code go on working."""
    result = _run(
        session,
        """
import multiprocessing, os, pytest

@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_it(world, method):
    live = world(dp=2)
    live.run(total)
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map(abs, [-1]) == [1]
    assert live.run(total) == [2.0, 2.0]
""",
    )
    result.assert_outcomes(passed=3)


def test_the_law_suites_have_rewritten_asserts(session: pytest.Pytester) -> None:
    """An assert of harness.suites that fails shows its values, from the wheel too."""
    assert sys.version_info >= (3, 11)
    result = _run(
        session,
        """
def test_it():
    import harness.suites
    assert type(harness.suites.__spec__.loader).__name__ == "AssertionRewritingHook"
""",
    )
    result.assert_outcomes(passed=1)


def test_the_server_starts_before_collection_where_worlds_were_asked_for(
    pytester: pytest.Pytester,
) -> None:
    """It is a guess from the last session; one that proves wrong costs next to nothing."""
    pytester.makeconftest(
        """
import time

def pytest_collection(session):
    import harness.launch._forkserver as forkserver
    print("servers:", sum(s._process is not None for s in forkserver._servers.values()))
"""
    )
    worlds = pytester.makepyfile(test_worlds="def test_it(world):\n    world().run(int)\n")
    none = pytester.makepyfile(test_none="def test_it():\n    pass\n")
    sessions = [pytester.runpytest_subprocess("-s", each) for each in (worlds, worlds, none, none)]
    said = [line for s in sessions for line in s.outlines if line.startswith("servers:")]
    assert said == ["servers: 0", "servers: 1", "servers: 1", "servers: 0"]
    for each in sessions:
        each.assert_outcomes(passed=1)
