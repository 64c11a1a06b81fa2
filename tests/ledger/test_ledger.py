"""Ledgers: what is refused, what stays charged, and that nothing is changed unnoticed."""

import multiprocessing
import os
import pickle
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import ledger as harness
import numpy as np
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import dpconvex as dc
from dpconvex.errors import BudgetError, InputError, LedgerError, ReleaseError
from dpconvex.ledger import chain
from dpconvex.ledger.checking import verify_ledger
from dpconvex.ledger.filters import UNITS, filter_of
from dpconvex.ledger.ledger import Ledger
from dpconvex.plan.run import Run

X, Y = np.eye(2)[[0, 1] * 20], np.array([1.0, -1.0] * 20)


@pytest.fixture
def tmp_path():
    """In memory where that is a file system: a ledger waits for the disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield Path(folder)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(path):
    ledger = Ledger.open(path)
    ledger.declare("Trial 7", budget=dc.Budget(1.0, 1e-6), owner="Ada")
    return ledger


def plan_of(epsilon=0.5, relation="replace_one", delta=1e-6):
    problem = dc.Problem(dc.losses.Logistic())
    return dc.algorithms.MeanDirection().plan(problem, n=40, d=2, budget=dc.Budget(epsilon, delta, relation))


def run(ledger, plan=None, name="trial 7", **options):
    with dc.context(ledger=ledger):
        return (plan or plan_of()).run(X, Y, dataset=name, **options)


def kinds(ledger):
    return [entry.body["kind"] for entry in ledger.entries()]


# What a run leaves behind


def test_a_run_is_reserved_and_committed_and_its_receipt_names_the_entry(ledger, path):
    receipt = run(ledger).receipt
    assert kinds(Ledger.open(path)) == ["open", "declare", "reserve", "commit"]
    reserve, commit = list(ledger.entries())[2:]
    assert receipt.data["ledger"] == {"ledger": ledger.id, "entry": 3, "hash": reserve.hash}
    assert reserve.body["plan"] == receipt.data["plan"]["digest"]
    assert commit.body["receipt"] == receipt.data["digest"]
    assert commit.body["run"] == reserve.body["run"]
    assert dc.verify(receipt)
    assert verify_ledger(ledger, [receipt]) == ledger.head
    assert dc.account("trial 7").claims == ()  # the account is for where there is no ledger


def test_the_budget_is_spent_as_squares_add_up_and_no_further(ledger):
    plan = plan_of(0.25)
    mu, whole = plan.claim.profile.mu, filter_of(dc.Budget(1.0, 1e-6)).limits["mu"]
    made = int(whole**2 / mu**2)
    for _ in range(made):
        run(ledger, plan)
    with pytest.raises(BudgetError, match="beyond its budget"):
        run(ledger, plan)
    assert kinds(ledger).count("reserve") == made
    assert ledger.spent("trial 7") == pytest.approx(dc.kernel.profiles.GDP(mu * made**0.5).epsilon(1e-6), rel=1e-6)


def test_what_remains_can_be_spent_and_nothing_more(ledger):
    assert ledger.remaining("trial 7") == 1.0
    run(ledger)
    left = ledger.remaining("trial 7")
    assert ledger.remaining("trial 7", 1e-8) > left > ledger.remaining("trial 7", 1e-5)
    with pytest.raises(BudgetError):
        run(ledger, plan_of(left * 1.001))
    run(ledger, plan_of(left))
    assert ledger.remaining("trial 7") < 0.01
    assert ledger.spent("trial 7") <= 1.0


def test_the_first_release_may_take_the_whole_budget_by_its_own_curve(ledger):
    curve = dc.algorithms.ObjectivePerturbation().plan(
        dc.Problem(dc.losses.Logistic(), l2=3.0), n=40, d=2, budget=dc.Budget(1.0, 1e-6)
    )
    run(ledger, curve)
    assert ledger.remaining("trial 7") == 0.0
    assert 0.99 < ledger.spent("trial 7") <= 1.0
    with pytest.raises(BudgetError):
        run(ledger, plan_of(1e-3))
    ledger.declare("other", budget=dc.Budget(1.0, 1e-6))
    run(ledger, plan_of(0.1), "other")
    with pytest.raises(BudgetError):
        run(ledger, curve, "other")
    verify_ledger(ledger)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit, MemoryError, InputError])
def test_a_run_that_breaks_off_stays_charged(ledger, failure):
    def job(port):
        raise failure("broken")

    with dc.context(ledger=ledger), pytest.raises(failure):
        Run(plan_of(), "trial 7").once(job)
    assert kinds(ledger)[2:] == ["reserve"]
    assert ledger.spent("trial 7") > 0.4


def test_what_cannot_be_recorded_is_not_released(ledger, monkeypatch):
    monkeypatch.setattr(Ledger, "_record", lambda *_: (_ for _ in ()).throw(LedgerError("the disk is full")))
    with pytest.raises(LedgerError, match="full"):
        run(ledger)
    assert kinds(ledger)[2:] == ["reserve"]


def test_a_stream_is_charged_once_wherever_it_goes_on(ledger, tmp_path):
    problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))
    plan = dc.algorithms.PrivateFTRL("blt").plan_stream(problem, d=2, budget=dc.Budget(0.5, 1e-6))
    code = (
        "import sys, numpy as np, dpconvex as dc\n"
        "from dpconvex.plan.session import Session\n"
        "from dpconvex.plan.checkpoint import Checkpoint\n"
        "problem = dc.Problem(dc.losses.Logistic(), domain=dc.domains.L2Ball(8.0))\n"
        "plan = dc.algorithms.PrivateFTRL('blt').plan_stream(problem, d=2, budget=dc.Budget(0.5, 1e-6))\n"
        "session = Session.resume(plan, Checkpoint(sys.argv[1], sys.argv[2]))\n"
        "session.feed(np.eye(2), [1.0, -1.0])\n"
        "assert dc.verify(session.solution().receipt)\n"
    )
    with dc.context(ledger=ledger):
        session = plan.start(dataset="TRIAL 7")
        session.feed(np.eye(2), [1.0, -1.0])
        session.solution()
        session.save_checkpoint(tmp_path / "stream", tmp_path / "key")
        subprocess.run([sys.executable, "-c", code, tmp_path / "stream", tmp_path / "key"], check=True)
    assert kinds(ledger)[2:] == ["reserve", "commit", "commit"]
    verify_ledger(ledger)


# What is refused, and by which words


def test_what_was_not_declared_is_refused(ledger):
    with pytest.raises(BudgetError, match=r"'other' is not declared in the ledger, which has 'trial 7'"):
        run(ledger, name="other")
    with pytest.raises(BudgetError, match="'default' is not declared"), dc.context(ledger=ledger):
        plan_of().run(X, Y)
    assert kinds(ledger) == ["open", "declare"]


@pytest.mark.parametrize("name", ["trial 7", "TRIAL 7 ", " Trial\u30007", "ｔｒｉａｌ ７", "tri\u200cal 7"])
def test_every_spelling_is_the_same_data_set(ledger, name):
    run(ledger, plan_of(1.0), name)
    with pytest.raises(BudgetError, match="beyond"):
        run(ledger)
    with pytest.raises(InputError, match="declared already"):
        ledger.declare(name, budget=dc.Budget(9.0, 1e-6))


def test_runs_with_a_seed_are_refused(ledger):
    with pytest.raises(BudgetError, match="seed"):
        run(ledger, seed=1)


def test_relations_and_units_are_never_mixed(ledger):
    with pytest.raises(BudgetError, match="about replace_one, and the run about zero_out"):
        run(ledger, plan_of(relation="zero_out"))
    ledger.declare("people", budget=dc.Budget(1.0, 1e-6), unit="person")
    ledger.declare("visits", budget=dc.Budget(1.0, 1e-6), unit=3)
    for name, words in (("people", "all the rows of one person"), ("visits", "3 records of one person")):
        with pytest.raises(BudgetError, match=f"about {words}, and the run about one record"):
            run(ledger, name=name)
    assert kinds(ledger).count("reserve") == 0


def test_an_expired_budget_is_refused_even_if_the_clock_goes_back(ledger, monkeypatch):
    ledger.declare("old", budget=dc.Budget(1.0, 1e-6), expires="2020-12-31")
    with pytest.raises(BudgetError, match="expired on 2020-12-31"):
        run(ledger, name="old")
    assert ledger.remaining("old") == 0.0

    class Earlier(chain.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2019, 1, 1, tzinfo=tz)

    monkeypatch.setattr(chain, "datetime", Earlier)
    with pytest.raises(BudgetError, match="expired on 2020-12-31"):
        run(ledger, name="old")
    run(ledger)  # and others go on
    verify_ledger(ledger)


def test_plans_are_approved_before_data_are_opened(path):
    ledger, plan = Ledger.open(path), plan_of(0.1)
    for name in ("strict", "another"):
        ledger.declare(name, budget=dc.Budget(1.0, 1e-6), approval=True)
    with pytest.raises(BudgetError, match="it was not approved"):
        run(ledger, plan, "strict")
    ledger.approve(plan, "strict", by="Ada")
    run(ledger, plan, "Strict")
    with pytest.raises(BudgetError, match="its 1 approved runs were made"):
        run(ledger, plan, "strict")
    ledger.approve(plan.to_json(), "strict", by="Ada", times=2, note="twice more")
    for _ in range(2):
        run(ledger, plan, "strict")
    with pytest.raises(BudgetError, match="its 3 approved runs were made"):
        run(ledger, plan, "strict")
    with pytest.raises(BudgetError, match="not approved"):
        run(ledger, plan_of(0.11), "strict")
    with pytest.raises(BudgetError, match="not approved"):
        run(ledger, plan, "another")
    with pytest.raises(BudgetError, match="read in the data: feature_bound"):
        run(ledger, plan, "strict", undeclared=["feature_bound"])
    verify_ledger(ledger)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": 3.0}, "budget must be"),
        ({"unit": 0}, "unit"),
        ({"unit": "group"}, "unit"),
        ({"expires": "tomorrow"}, "expires"),
        ({"expires": 3}, "expires"),
        ({"form": "pld"}, "form"),
        ({"aside": 0.9}, "aside"),
        ({"form": "rdp", "order": 1.5}, "no divergence"),
        ({"approval": "yes"}, "approval"),
        ({"owner": "a\nb"}, "owner"),
    ],
)
def test_what_cannot_be_declared(ledger, change, message):
    with pytest.raises(InputError, match=message):
        ledger.declare("new", **{"budget": dc.Budget(1.0, 1e-6), **change})
    assert kinds(ledger) == ["open", "declare"]


def test_a_ledger_that_is_not_there_is_not_made_in_passing(path, monkeypatch):
    monkeypatch.setenv("DPCONVEX_LEDGER", str(path))
    with pytest.raises(LedgerError, match="there is no ledger"):
        plan_of().run(X, Y, dataset="trial 7")
    assert not path.exists()


def test_other_files_are_no_ledgers(tmp_path):
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (a)")
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger.open(other)
    (tmp_path / "text").write_text("no database, " * 100)
    with pytest.raises(LedgerError, match="no SQLite file"):
        Ledger.open(tmp_path / "text")
    with pytest.raises(LedgerError, match="folder"):
        Ledger.open(tmp_path / "nowhere" / "budget.db")
    with pytest.raises(InputError, match="ledger must be a ledger"), dc.context(ledger="budget.db"):
        pass


# Wherever runs are


FIT = """
import numpy as np, dpconvex as dc, warnings
warnings.simplefilter("ignore")
X = np.eye(2)[[0, 1] * 20]
plan = dc.algorithms.MeanDirection().plan(
    dc.Problem(dc.losses.Logistic()), n=40, d=2, budget=dc.Budget(0.8, 1e-6))
try:
    plan.run(X, np.array([1.0, -1.0] * 20), dataset="trial 7 ")
    print("released")
except dc.errors.BudgetError:
    print("refused")
"""


def test_a_restart_does_not_give_a_budget_back(ledger, path):
    env = {**os.environ, "DPCONVEX_LEDGER": str(path)}
    said = [
        subprocess.run([sys.executable, "-c", FIT], env=env, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said == ["released\n", "refused\n"]


def _fit(_):
    try:
        plan_of(0.3).run(X, Y, dataset="TRIAL 7")
    except BudgetError:
        return False
    return True


@pytest.fixture
def fresh_workers():
    """joblib keeps workers of earlier tests, which know nothing of this ledger."""
    get_reusable_executor().shutdown(wait=True)
    yield
    get_reusable_executor().shutdown(wait=True)


@pytest.mark.usefixtures("fresh_workers")
@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
def test_workers_share_the_budget(ledger, backend):
    with dc.context(ledger=ledger):
        done = Parallel(n_jobs=2, backend=backend)(delayed(_fit)(i) for i in range(16))
    assert sum(done) == kinds(ledger).count("commit") == int(0.2366**2 / plan_of(0.3).claim.profile.mu ** 2)
    verify_ledger(ledger)


@pytest.mark.usefixtures("fresh_workers")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.filterwarnings("ignore::dpconvex.errors.SelectionWarning")
@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_a_search_and_a_pipeline_cannot_overspend(ledger, n_jobs):
    model = dc.PrivateLogisticRegression(
        feature_bound=1.0, classes=[-1, 1], algorithm="MeanDirection", dataset="trial 7"
    )
    pipeline = make_pipeline(dc.PrivatePreprocessor(dc.Schema({"a": dc.schema.Number(0, 1)}, name="x")), model)
    grid = GridSearchCV(model, {"epsilon": [0.4, 0.8]}, cv=3, n_jobs=n_jobs, refit=False, error_score=np.nan)
    with dc.context(ledger=ledger), pytest.warns(FitFailedWarning):
        grid.fit(X, Y)
    released = np.isfinite(np.concatenate([grid.cv_results_[f"split{k}_test_score"] for k in range(3)])).sum()
    assert released == kinds(ledger).count("commit") < 6
    with dc.context(ledger=ledger), pytest.raises(BudgetError, match="Trial 7"):
        pipeline.set_params(privatelogisticregression__epsilon=1.0).fit({"a": X[:, 0]}, Y)
    verify_ledger(ledger)


def test_a_pipeline_charges_the_data_set_that_its_model_or_the_context_names(ledger):
    schema = dc.Schema({"a": dc.schema.Number(0, 1)})
    for model, name in (({"dataset": "trial 7"}, "default"), ({}, "trial 7")):
        steps = (
            dc.PrivatePreprocessor(schema),
            dc.PrivateLogisticRegression(
                epsilon=0.3, feature_bound=2.0, classes=[-1, 1], algorithm="MeanDirection", **model
            ),
        )
        with dc.context(ledger=ledger, dataset=name):
            make_pipeline(*steps).fit({"a": X[:, 0]}, Y)
    with dc.context(ledger=ledger), pytest.raises(BudgetError, match="'default' is not declared"):
        make_pipeline(*steps).fit({"a": X[:, 0]}, Y)
    assert kinds(ledger).count("commit") == 2


def test_a_data_set_has_one_name():
    schema = dc.Schema({"a": dc.schema.Number(0, 1)}, dc.schema.Classes("y", [-1, 1]), name="clinic")
    table = {"a": X[:, 0]}
    with pytest.raises(InputError, match="give only one"):
        dc.PrivateLogisticRegression(schema=schema, dataset="other").fit(table, Y)
    fitted = dc.PrivateLogisticRegression(schema=schema, dataset="Clinic ").fit(table, Y)
    assert fitted.receipt_.data["dataset"]["name"] == "clinic"


def test_selection_and_evaluation_charge_what_their_claims_say(ledger):
    rng = np.random.default_rng(0)
    rows = rng.uniform(-0.5, 0.5, (400, 3))
    labels = np.where(rows[:, 0] > 0, 1, -1)
    ledger.declare("held out", budget=dc.Budget(1.0, 1e-6))
    model = dc.PrivateLogisticRegression(feature_bound=1.0, classes=[-1, 1], dataset="trial 7")
    with dc.context(ledger=ledger):
        search = dc.PrivateSelection(model, {"fit_intercept": [True, False]}, repeats=2, epsilon=1.0).fit(rows, labels)
        found = dc.evaluate(search.best_estimator_, rows, labels, budget=dc.Budget(0.5, 1e-6), dataset="held out")
        with pytest.raises(BudgetError, match="Trial 7"):
            search.fit(rows, labels)
    assert kinds(ledger)[3:] == ["reserve", "commit"] * 2
    assert ledger.spent("trial 7") <= 1.0
    assert ledger.spent("held out") == pytest.approx(found.receipt.epsilon, rel=1e-6)
    verify_ledger(ledger, [search.receipt_, found.receipt])


@pytest.mark.usefixtures("fresh_workers")
@pytest.mark.filterwarnings("ignore::dpconvex.errors.SelectionWarning")
def test_workers_that_know_nothing_of_the_ledger_refuse_to_fit(ledger, tmp_path):
    """joblib keeps workers: these were started before the ledger was, or under another."""
    other = Ledger.open(tmp_path / "other.db")
    Parallel(n_jobs=2)(delayed(len)([]) for _ in range(2))
    grid = GridSearchCV(
        dc.PrivateLogisticRegression(feature_bound=1.0, classes=[-1, 1], algorithm="MeanDirection", dataset="trial 7"),
        {"epsilon": [0.1]}, cv=2, n_jobs=2, error_score="raise", refit=False,
    )  # fmt: skip
    with dc.context(ledger=ledger), pytest.raises(BudgetError, match="was sent here from under the ledger"):
        grid.fit(X, Y)
    get_reusable_executor().shutdown(wait=True)
    with dc.context(ledger=other):
        Parallel(n_jobs=2)(delayed(len)([]) for _ in range(2))
    with dc.context(ledger=ledger), pytest.raises(BudgetError, match=f"this process is under {other.id[:8]}"):
        grid.fit(X, Y)
    assert kinds(ledger) == ["open", "declare"]


def test_threads_share_the_budget(ledger):
    done = []

    def go():
        done.append(_fit(0))

    with dc.context(ledger=ledger):
        threads = [threading.Thread(target=go) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(done) == 9
    verify_ledger(ledger)


def test_a_context_restores_the_environment(ledger, tmp_path, monkeypatch):
    monkeypatch.setenv("DPCONVEX_LEDGER", "outer")
    other = Ledger.open(tmp_path / "other.db")
    with dc.context(ledger=ledger):
        with dc.context(ledger=other):
            assert os.environ["DPCONVEX_LEDGER"] == other.url
        assert os.environ["DPCONVEX_LEDGER"] == ledger.url
    assert os.environ["DPCONVEX_LEDGER"] == "outer"
    monkeypatch.delenv("DPCONVEX_LEDGER")
    with dc.context(ledger=ledger):
        pass
    assert "DPCONVEX_LEDGER" not in os.environ


def test_a_ledger_can_be_sent_to_another_process(ledger):
    again = pickle.loads(pickle.dumps(ledger))
    assert again.id == ledger.id
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(Ledger.remaining, (ledger, "trial 7")) == 1.0


def test_children_of_a_fork_have_connections_of_their_own(ledger):
    ledger.remaining("trial 7")  # the parent has one open
    child = os.fork()
    if not child:
        try:
            os._exit(0 if _reserved(ledger) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert _reserved(ledger)
    assert kinds(ledger).count("reserve") == 2
    verify_ledger(ledger)


def _reserved(ledger):
    return ledger.reserve("trial 7", plan_of(0.1).claim, plan="0" * 64).number > 2


# Nothing is changed unnoticed


def spoilt(path, statement, *given):
    with sqlite3.connect(path) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement, given)
        for _, sql in triggers:
            connection.execute(sql)


@pytest.fixture
def used(ledger):
    for epsilon in (0.3, 0.2):
        run(ledger, plan_of(epsilon))
    return ledger


@pytest.mark.parametrize("change", ["UPDATE dpconvex_ledger SET body = 'x'", "DELETE FROM dpconvex_ledger"])
def test_entries_cannot_be_changed_by_accident(used, path, change):
    with sqlite3.connect(path) as connection, pytest.raises(sqlite3.IntegrityError, match="never changed"):
        connection.execute(change)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dpconvex_ledger SET body = replace(body, '\"times\"', '\"times\"') || ' ' WHERE number = 3",
        "UPDATE dpconvex_ledger SET dataset = 'other' WHERE number = 3",
        "UPDATE dpconvex_ledger SET kind = 'commit' WHERE number = 3",
        "UPDATE dpconvex_ledger SET run = 'x' WHERE number = 3",
        "UPDATE dpconvex_ledger SET hash = replace(hash, substr(hash, 1, 1), 'z') WHERE number = 3",
        "DELETE FROM dpconvex_ledger WHERE number = 3",
        "DELETE FROM dpconvex_ledger WHERE number = 1",
        "UPDATE dpconvex_ledger SET number = 30 WHERE number = 3",
    ],
)
def test_a_changed_or_removed_entry_is_found(used, path, statement):
    verify_ledger(used)
    spoilt(path, statement)
    with pytest.raises(LedgerError, match="altered"):
        verify_ledger(used)


def test_changed_tables_are_found(used, path):
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER dpconvex_no_update")
    with pytest.raises(LedgerError, match="tables are not as they were made"):
        verify_ledger(used)


def test_an_entry_that_is_hashed_again_does_not_follow(used, path):
    entry = list(used.entries())[2]
    text = entry.text.replace('"whole":false', '"whole":true')
    assert text != entry.text
    spoilt(path, "UPDATE dpconvex_ledger SET body = ?, hash = ? WHERE number = 3", text, chain.hashed(text))
    with pytest.raises(LedgerError, match="entry 4 does not follow"):
        verify_ledger(used)


def test_a_budget_that_is_raised_in_the_last_entry_is_found_at_once(ledger, path):
    text = ledger.head.text.replace('"epsilon":1', '"epsilon":9')
    spoilt(path, "UPDATE dpconvex_ledger SET body = ? WHERE number = 2", text)
    with pytest.raises(LedgerError, match="altered"):
        run(ledger)


def test_receipts_and_noted_heads_show_that_a_copy_was_put_back(used, path, tmp_path):
    used.backup(tmp_path / "copy.db")
    receipt, head = run(used, plan_of(0.3)).receipt, used.head
    verify_ledger(used, [receipt], (head.number, head.hash))
    old = Ledger.open(tmp_path / "copy.db")
    verify_ledger(old)
    with pytest.raises(LedgerError, match="ends at entry 6, and entry 7 was noted"):
        verify_ledger(old, [receipt])
    for _ in range(2):  # gone on from, it has other entries of these numbers
        run(old, plan_of(0.1))
    with pytest.raises(LedgerError, match="entry 7 is another"):
        verify_ledger(old, [receipt])
    with pytest.raises(LedgerError, match="entry 8 is another"):
        verify_ledger(old, (), (head.number, head.hash))
    with pytest.raises(InputError, match="exists"):
        used.backup(tmp_path / "copy.db")


def test_receipts_of_other_ledgers_are_none_of_this_one(ledger, tmp_path):
    other = Ledger.open(tmp_path / "other.db")
    other.declare("trial 7", budget=dc.Budget(1.0, 1e-6))
    with pytest.raises(LedgerError, match="another ledger"):
        verify_ledger(ledger, [run(other).receipt])
    with pytest.raises(LedgerError, match="not issued under a ledger"):
        verify_ledger(ledger, [plan_of().run(X, Y, dataset="no ledger").receipt])


def test_hashes_give_nothing_away(tmp_path):
    """The same entry has another hash in every ledger: nobody can guess what it says and compare."""
    hashes = set()
    for number in range(2):
        ledger = Ledger.open(tmp_path / f"{number}.db")
        ledger.declare("trial 7", budget=dc.Budget(1.0, 1e-6))
        hashes |= {entry.hash for entry in ledger.entries()}
    assert len(hashes) == 4


def test_files_are_for_their_owner(ledger, path):
    ledger.remaining("trial 7")
    assert [oct(file.stat().st_mode & 0o777) for file in path.parent.glob("budget.db*")] == ["0o600"] * 3


def test_other_formats_are_refused(path, monkeypatch):
    monkeypatch.setattr("dpconvex.ledger.ledger.FORMAT", "dpconvex-ledger/9")
    Ledger.open(path)
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="format 'dpconvex-ledger/9'"):
        Ledger.open(path)


# Under attack: slices of benchmarks/ledger.py


def test_writers_that_race_and_are_killed_never_exceed_the_budget(tmp_path):
    total = harness.interleavings(12, lambda number: Ledger.open(tmp_path / f"{number}.db"))
    assert total["killed"] > 12
    assert total["released"] > 6 * harness.FITS


def test_a_kill_at_any_statement_loses_nothing(tmp_path):
    total = harness.at_every_statement(lambda number: Ledger.open(tmp_path / f"{number}.db"))
    assert total["killed"] > 40


def test_units_are_exact():
    found = filter_of(dc.Budget(1.0, 1e-6))
    assert found.units({"mu": found.limits["mu"], "delta": 0.0}) == [UNITS, 0]
    assert found.units({"mu": np.nextafter(found.limits["mu"], 1.0), "delta": 5e-324}) == [UNITS + 1, 1]


@pytest.mark.parametrize("form", ["gdp", "zcdp", "rdp"])
def test_every_form_allows_what_it_says_remains(path, form):
    ledger = Ledger.open(path)
    ledger.declare("d", budget=dc.Budget(2.0, 1e-6), form=form)
    for _ in range(3):
        run(ledger, plan_of(0.4), "d")
    left = ledger.remaining("d")
    run(ledger, plan_of(left), "d")
    assert ledger.remaining("d") < 0.02
    assert ledger.spent("d") <= 2.0
    with pytest.raises(BudgetError):
        run(ledger, plan_of(0.05), "d")
    verify_ledger(ledger)


def test_forms_refuse_what_has_none(path):
    ledger = Ledger.open(path)
    ledger.declare("d", budget=dc.Budget(2.0, 1e-6), form="zcdp")
    curve = dc.algorithms.ObjectivePerturbation().plan(
        dc.Problem(dc.losses.Logistic(), l2=3.0), n=40, d=2, budget=dc.Budget(0.5, 1e-6)
    )
    run(ledger, plan_of(0.4), "d")
    with pytest.raises(BudgetError, match="no zcdp form"):
        run(ledger, curve, "d")


def test_a_run_needs_its_release_before_it_is_committed(ledger):
    with dc.context(ledger=ledger), pytest.raises(ReleaseError, match="never drawn"):
        Run(plan_of(), "trial 7").once(lambda port: None)
    assert kinds(ledger)[2:] == ["reserve"]
