"""The ledger in PostgreSQL: the same semantics, and a network that is lost. Collected where there is a server."""

import os
import signal
import threading

import ledger as harness
import numpy as np
import pytest
from servers import Cut, emptied, execute, server

import dpconvex as dc
from dpconvex.errors import BudgetError, InputError, LedgerError
from dpconvex.ledger.checking import verify_ledger
from dpconvex.ledger.ledger import Ledger
from dpconvex.ledger.store import UnsureError

X, Y = np.eye(2)[[0, 1] * 20], np.array([1.0, -1.0] * 20)


@pytest.fixture(scope="module")
def url():
    with server() as found:
        yield found


@pytest.fixture
def ledger(url):
    emptied(url)
    ledger = Ledger.open(url)
    ledger.declare("trial 7", budget=dc.Budget(1.0, 1e-6), owner="Ada", expires="2999-12-31")
    return ledger


def plan_of(epsilon):
    problem = dc.Problem(dc.losses.Logistic())
    return dc.algorithms.MeanDirection().plan(problem, n=40, d=2, budget=dc.Budget(epsilon, 1e-6))


def run(ledger, epsilon=0.5):
    with dc.context(ledger=ledger, dataset="TRIAL 7"):
        return plan_of(epsilon).run(X, Y).receipt


def kinds(ledger):
    return [entry.body["kind"] for entry in ledger.entries()]


def test_it_means_what_it_means_on_sqlite(ledger, url, tmp_path):
    other = Ledger.open(tmp_path / "budget.db")
    other.declare("trial 7", budget=dc.Budget(1.0, 1e-6), owner="Ada", expires="2999-12-31")
    for one in (ledger, other):
        receipt = run(one)
        assert dc.verify(receipt)
        with pytest.raises(BudgetError, match="beyond"):
            run(one, 0.95)
        with pytest.raises(InputError, match="declared already"):
            one.declare("Trial  7", budget=dc.Budget(2.0, 1e-6))
        verify_ledger(one, [receipt])
    assert kinds(ledger) == kinds(other) == ["open", "declare", "reserve", "commit"]
    assert ledger.remaining("trial 7") == other.remaining("trial 7")
    own = {"before", "nonce", "when", "run", "ledger", "receipt"}
    said = [[{k: v for k, v in e.body.items() if k not in own} for e in one.entries()] for one in (ledger, other)]
    assert said[0] == said[1]
    assert Ledger.open(url).id == ledger.id
    with pytest.raises(InputError, match="pg_dump"):
        ledger.backup(tmp_path / "copy")


@pytest.mark.parametrize(
    "change", ["UPDATE dpconvex_ledger SET body = 'x'", "DELETE FROM dpconvex_ledger", "TRUNCATE dpconvex_ledger"]
)
def test_entries_cannot_be_changed_by_accident(ledger, url, change):
    with pytest.raises(Exception, match="never changed"):
        execute(url, change)


def test_a_changed_entry_is_found(ledger, url):
    run(ledger)
    execute(
        url, "ALTER TABLE dpconvex_ledger DISABLE TRIGGER ALL",
        "UPDATE dpconvex_ledger SET body = replace(body, 'false', 'true') WHERE number = 3",
    )  # fmt: skip
    with pytest.raises(LedgerError, match="altered"):
        verify_ledger(ledger)


def test_two_race_for_the_last_of_the_budget(ledger):
    done = []

    def go():
        try:
            done.append(run(Ledger.open(ledger.url), 0.9))
        except BudgetError:
            done.append(None)

    threads = [threading.Thread(target=go) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(receipt is not None for receipt in done) == 1
    verify_ledger(ledger, [receipt for receipt in done if receipt])


def test_writers_that_race_and_are_killed_never_exceed_the_budget(url):
    def make(number):
        emptied(url)
        return Ledger.open(url)

    total = harness.interleavings(6, make)
    assert total["killed"] > 6
    assert total["released"] > 3 * harness.FITS


@pytest.mark.parametrize("before", [True, False])
def test_the_network_is_lost_while_a_run_is_reserved(ledger, url, before):
    """If the server got it, the run is charged; in neither case does it start."""
    wire = Cut(url)
    far = Ledger.open(wire.url)
    wire.word, wire.before = b"COMMIT", before
    with pytest.raises(UnsureError, match="whether that was recorded is not known"):
        run(far)
    assert kinds(ledger)[2:] == ([] if before else ["reserve"])
    run(far, 0.2)  # and goes on when the network is back
    verify_ledger(ledger)
    wire.close()


@pytest.mark.parametrize("before", [True, False])
def test_the_network_is_lost_while_a_release_is_recorded(ledger, url, before):
    """It is recorded once, whether or not the server had got it."""
    wire = Cut(url)
    far = Ledger.open(wire.url)
    reserved = far.reserve("trial 7", plan_of(0.2).claim, plan="0" * 64)
    wire.word, wire.before = b"COMMIT", before
    reserved.commit(harness.receipt_of(7))
    assert kinds(ledger)[2:] == ["reserve", "commit"]
    verify_ledger(ledger)
    wire.close()


def test_the_network_is_lost_in_mid_transaction(ledger, url):
    wire = Cut(url)
    far = Ledger.open(wire.url)
    wire.word = b"INSERT"
    with pytest.raises(LedgerError, match="cannot be used"):
        run(far)
    assert kinds(ledger) == ["open", "declare"]
    wire.close()


def test_a_server_that_is_not_there(url):
    with pytest.raises(LedgerError, match="cannot be used"):
        Ledger.open("postgresql://postgres@127.0.0.1:1/none")
    emptied(url)
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.open(url, create=False)


def test_passwords_are_not_shown(ledger, url):
    with pytest.raises(LedgerError) as told:
        Ledger.open("postgresql://ada:secret@127.0.0.1:1/none")
    assert "secret" not in str(told.value)


def test_a_client_that_is_killed_holds_no_lock(ledger):
    child = os.fork()
    if not child:
        with ledger.store.transaction() as tell:
            tell("SELECT 1")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    run(ledger)
    verify_ledger(ledger)
