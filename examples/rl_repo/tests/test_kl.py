"""The KL in the log is the KL, whatever was made of it."""

from rl.advantages import ESTIMATORS, compute_advantages_and_returns

from harness.suites import kl_aliasing


# One test for each law and estimator; within it every KL type, with a kl_coef of 0 and of 0.05.
@kl_aliasing.parametrize(compute_advantages_and_returns, list(ESTIMATORS))
def test_logged_kl(check):
    """The logged KL is right, and out of reach of what comes after."""
    check()
