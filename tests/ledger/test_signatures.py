"""Signatures: whose word receipts and models are, and that no change of one byte goes unnoticed."""

import base64
import copy
import json
import random
import sqlite3

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import dpconvex as dc
from dpconvex.errors import DpconvexError, InputError, LedgerError, SignatureError, VerificationError
from dpconvex.estimators.store import check_model, read_model, sign_model, write_model
from dpconvex.ledger.checking import verify_ledger
from dpconvex.ledger.ledger import Ledger
from dpconvex.ledger.signatures import new_key, read_key, read_trusted, sign, signers

X, Y = np.eye(2)[[0, 1] * 20], np.array([1.0, -1.0] * 20)


@pytest.fixture
def keys(tmp_path):
    (tmp_path / "trusted").mkdir()
    for name in ("ada", "bob", "eve"):
        new_key(tmp_path / name)
    for name in ("ada", "bob"):
        (tmp_path / "trusted" / f"{name}.pub").write_text((tmp_path / f"{name}.pub").read_text())
    return tmp_path


@pytest.fixture(scope="module")
def model():
    return dc.PrivateLogisticRegression(feature_bound=1.0, classes=[-1, 1], algorithm="MeanDirection").fit(X, Y)


@pytest.fixture
def receipt(model):
    return model.receipt_


def test_a_signature_says_whose_word_a_receipt_is(keys, receipt):
    signed = sign(sign(receipt, keys / "ada"), keys / "bob")
    assert signers(signed, keys / "trusted") == ("ada", "bob")
    assert dc.verify(signed)
    assert sign(signed, keys / "ada").data["signature"]["signatures"][1] == signed.data["signature"]["signatures"][0]
    assert signed.data["digest"] == receipt.data["digest"]
    assert dc.Receipt.from_json(signed.to_json()) == signed


def test_unsigned_untrusted_and_forged_have_their_own_messages(keys, receipt):
    with pytest.raises(SignatureError, match="it is not signed"):
        signers(receipt, keys / "trusted")
    with pytest.raises(SignatureError, match="a key that is not trusted here"):
        signers(sign(receipt, keys / "eve"), keys / "trusted")
    forged = sign(receipt, keys / "eve")
    forged.data["signature"]["signatures"][0]["keyid"] = next(iter(read_trusted(keys / "trusted")))
    with pytest.raises(SignatureError, match=r"of (ada|bob) does not match"):
        signers(forged, keys / "trusted")
    changed = copy.deepcopy(sign(receipt, keys / "ada").data)
    changed["engine"]["date"] = "2001-01-01"
    with pytest.raises(SignatureError, match="changed after it was signed"):
        signers(dc.Receipt(changed), keys / "trusted")


def test_of_several_signatures_none_of_a_trusted_key_may_be_forged(keys, receipt):
    signed = sign(sign(receipt, keys / "ada"), keys / "bob")
    one = signed.data["signature"]["signatures"][1]
    raw = bytearray(base64.b64decode(one["sig"]))
    raw[5] ^= 1
    one["sig"] = base64.b64encode(raw).decode()
    with pytest.raises(SignatureError, match="bob does not match"):
        signers(signed, keys / "trusted")


def test_a_signature_is_for_one_kind_of_document(keys, receipt):
    signed = sign(receipt, keys / "ada")
    signed.data["signature"]["payloadType"] = "application/vnd.dpconvex.model+json"
    with pytest.raises(SignatureError, match="another form"):
        signers(signed, keys / "trusted")
    with pytest.raises(VerificationError, match="signature"):
        dc.verify(signed)


@pytest.mark.parametrize("change", [
    [], "x", {"payloadType": "x", "signatures": []}, {"signatures": [{}]}, 3,
])  # fmt: skip
def test_other_forms_of_signatures_are_refused(keys, receipt, change):
    spoilt = dc.Receipt({**receipt.data, "signature": change})
    with pytest.raises(SignatureError, match="another form"):
        signers(spoilt, keys / "trusted")
    with pytest.raises(VerificationError, match="signature"):
        dc.verify(spoilt)


def test_keys_are_rotated_by_trusting_both(keys, receipt):
    old = sign(receipt, keys / "ada")
    new_key(keys / "ada-2")
    (keys / "trusted" / "ada-2.pub").write_text((keys / "ada-2.pub").read_text())
    assert signers(old, keys / "trusted") == ("ada",)
    assert signers(sign(receipt, keys / "ada-2"), keys / "trusted") == ("ada-2",)
    (keys / "trusted" / "ada.pub").unlink()
    with pytest.raises(SignatureError, match="not trusted"):
        signers(old, keys / "trusted")


def test_keys_are_for_their_owner(keys, monkeypatch):
    assert (keys / "ada").stat().st_mode & 0o777 == 0o600
    with pytest.raises(InputError, match="exists"):
        new_key(keys / "ada")
    (keys / "ada").chmod(0o644)
    with pytest.raises(InputError, match="may be read by others"):
        read_key(keys / "ada")
    monkeypatch.setenv("DPCONVEX_SIGNING_KEY", (keys / "bob").read_text())
    assert isinstance(read_key(), Ed25519PrivateKey)
    monkeypatch.setenv("DPCONVEX_SIGNING_KEY", str(keys / "bob"))
    assert isinstance(read_key(), Ed25519PrivateKey)
    monkeypatch.setenv("DPCONVEX_SIGNING_KEY", "-----BEGIN nothing")
    with pytest.raises(InputError, match="not an Ed25519 key"):
        read_key()
    monkeypatch.delenv("DPCONVEX_SIGNING_KEY")
    with pytest.raises(InputError, match="no key to sign with"):
        read_key()
    with pytest.raises(InputError, match="no folder"):
        read_trusted(keys / "nowhere")
    (keys / "trusted" / "x.pub").write_text("no key")
    with pytest.raises(InputError, match="not a public Ed25519 key"):
        read_trusted(keys / "trusted")


def test_a_model_is_signed_as_a_whole(keys, model):
    path = keys / "model.json"
    model.save(path)
    write_model(sign_model(read_model(path), read_key(keys / "ada")), path)
    write_model(sign_model(read_model(path), read_key(keys / "bob")), path)
    assert check_model(read_model(path), read_trusted(keys / "trusted")) == ("ada", "bob")
    again = dc.load(path)
    assert signers(again.receipt_, keys / "trusted") == ("ada", "bob")
    data = json.loads(path.read_text())
    data["weights"][0] += 1e-3
    write_model(data, path)
    with pytest.raises(VerificationError, match="altered"):
        read_model(path)
    again.save(path)  # a model that was loaded keeps the signature of its receipt, and not that of its file
    with pytest.raises(SignatureError, match="not signed"):
        check_model(read_model(path), read_trusted(keys / "trusted"))


# Every change of one byte


def flips(text, count, seed=0):
    """Texts that differ from this one in one byte."""
    rng = random.Random(seed)
    for _ in range(count):
        place = rng.randrange(len(text))
        other = rng.choice([b for b in range(256) if b != text[place]])
        yield text[:place] + bytes([other]) + text[place + 1 :]


def test_every_change_of_a_byte_of_a_receipt_or_a_model_is_noticed(keys, model):
    """Only blanks between values, of which there are as many ways to write the same, may change."""
    path, trusted = keys / "model.json", read_trusted(keys / "trusted")
    model.save(path)
    write_model(sign_model(read_model(path), read_key(keys / "ada")), path)
    said = {"noticed": 0, "the same": 0}
    whole, receipt = path.read_bytes(), dc.load(path).receipt_
    for text in flips(whole, 1000):
        path.write_bytes(text)
        try:
            found = read_model(path)
            check_model(found, trusted)
        except DpconvexError:
            said["noticed"] += 1
        else:
            assert found == json.loads(whole)
            said["the same"] += 1
    for text in flips(receipt.to_json().encode(), 1000):
        try:
            found = dc.Receipt.from_json(text.decode("utf-8"))
            signers(found, keys / "trusted")
        except (DpconvexError, UnicodeDecodeError):
            said["noticed"] += 1
        else:
            assert found == receipt
            said["the same"] += 1
    print(said)
    assert said["noticed"] > 1900


def test_every_change_of_a_byte_of_an_entry_is_noticed(tmp_path):
    path = tmp_path / "budget.db"
    ledger = Ledger.open(path)
    ledger.declare("trial 7", budget=dc.Budget(3.0, 1e-6))
    plan = dc.algorithms.MeanDirection().plan(dc.Problem(dc.losses.Logistic()), n=40, d=2, budget=dc.Budget(0.2, 1e-6))
    with dc.context(ledger=ledger, dataset="trial 7"):
        for _ in range(3):
            plan.run(X, Y)
    verify_ledger(ledger)
    rng, noticed = random.Random(1), 0
    with sqlite3.connect(path, isolation_level=None) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        rows = connection.execute("SELECT number, kind, dataset, plan, run, hash, body FROM dpconvex_ledger").fetchall()
    ledger.store.check = lambda: None  # the triggers are gone
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        columns = ("number", "kind", "dataset", "plan", "run", "hash", "body")
        for _ in range(1000):
            row = rng.choice(rows)
            column = rng.choice([c for c, value in zip(columns[1:], row[1:], strict=True) if value])
            value = row[columns.index(column)]
            place = rng.randrange(len(value))
            other = rng.choice([c for c in map(chr, range(32, 127)) if c != value[place]])
            change = f"UPDATE dpconvex_ledger SET {column} = ? WHERE number = ?"
            connection.execute(change, (value[:place] + other + value[place + 1 :], row[0]))
            with pytest.raises(LedgerError, match=r"altered|end|first"):
                verify_ledger(ledger)
            noticed += 1
            connection.execute(change, (value, row[0]))
    print(noticed, "changes of entries noticed")
    verify_ledger(ledger)


def test_a_changed_byte_of_the_file_is_noticed_or_changes_nothing(tmp_path):
    """Free space in pages holds nothing; everything else is a page, an index, a table or an entry."""
    path = tmp_path / "budget.db"
    ledger = Ledger.open(path)
    for number in range(10):
        ledger.declare(f"trial {number}", budget=dc.Budget(3.0, 1e-6))
    rows = [entry.text for entry in ledger.entries()]
    ledger.store.close()
    whole, said = path.read_bytes(), {"noticed": 0, "the same": 0}
    for number, content in enumerate(flips(whole, 300)):
        copy_path = tmp_path / f"{number}.db"
        copy_path.write_bytes(content)
        try:
            other = Ledger.open(copy_path, create=False)
            verify_ledger(other)
        except LedgerError:
            said["noticed"] += 1
        else:
            assert [entry.text for entry in other.entries()] == rows
            said["the same"] += 1
            other.store.close()
        copy_path.unlink(missing_ok=True)
    print(said)
    assert said["noticed"] > 50


def test_keys_of_other_kinds_are_none(tmp_path):
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

    other = tmp_path / "other"
    other.write_bytes(
        generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    other.chmod(0o600)
    with pytest.raises(InputError, match="not an Ed25519 key"):
        read_key(other)
