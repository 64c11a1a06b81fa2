"""Signatures: whose word a receipt or a model is.

A receipt states what was planned and promised. That the run took place, and on which records, only a person can vouch
for, who signs it with an Ed25519 key. What is signed is the canonical JSON of everything but the signature, with its
type, as DSSE encodes the two. Keys of others that one trusts lie in a folder, one file each.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpconvex.canonical import canonical
from dpconvex.errors import InputError, SignatureError
from dpconvex.kernel.receipt import Receipt
from dpconvex.plain import open_text

__all__ = ["new_key", "sign", "signers"]

KEY_VARIABLE = "DPCONVEX_SIGNING_KEY"  # a key file, or the key itself
RECEIPT, MODEL = "application/vnd.dpconvex.receipt+json", "application/vnd.dpconvex.model+json"
_HEX = re.compile("[0-9a-f]{64}")
_MOST = 16  # signatures on one document


def new_key(path: str | Path) -> str:
    """Make a key to sign with, readable by its owner only, and beside it the public key, `<path>.pub`.

    Returns
    -------
    str
        The name of the key: sha256 of the public key.

    Raises
    ------
    InputError
        If one of the files exists, or cannot be made.
    """
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    shown = Path(f"{path}.pub")
    if shown.exists():
        raise InputError(f"{shown} exists: a key is made once")
    for file, text, mode in ((Path(path), secret, 0o600), (shown, public, 0o644)):
        try:
            with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as out:
                out.write(text)
        except FileExistsError:
            raise InputError(f"{file} exists: a key is made once") from None
        except OSError as error:
            raise InputError(f"{file} cannot be made: {error.strerror}") from None
    return name_of(key.public_key())


def name_of(key: Ed25519PublicKey) -> str:
    """The name of a key: sha256 of its 32 bytes."""
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()


def read_key(path: str | Path | None = None) -> Ed25519PrivateKey:
    """Read a key to sign with, from a file or else from the environment variable DPCONVEX_SIGNING_KEY."""
    given = os.environ.get(KEY_VARIABLE, "") if path is None else str(path)
    if not given:
        raise InputError(f"no key to sign with: give a key file, or set {KEY_VARIABLE} to one or to the key itself")
    if given.lstrip().startswith("-----BEGIN"):
        text = given
    else:
        text = open_text(given, "the key file", InputError)
        if os.name == "posix" and Path(given).stat().st_mode & 0o077:
            raise InputError(f"the key file {given} may be read by others: allow only its owner (chmod 600)")
    try:
        key = serialization.load_pem_private_key(text.encode(), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError("the key to sign with is not an Ed25519 key in PEM, as `dpconvex key` makes it")
    return key


def read_trusted(folder: str | Path) -> dict[str, tuple[str, Ed25519PublicKey]]:
    """Read the public keys in a folder (`*.pub`): by name, whose each is, as its file is called."""
    if not Path(folder).is_dir():
        raise InputError(f"there is no folder {folder} of trusted keys")
    found = {}
    for file in sorted(Path(folder).glob("*.pub")):
        try:
            key = serialization.load_pem_public_key(open_text(file, str(file), InputError).encode())
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise InputError(f"{file} is not a public Ed25519 key in PEM")
        found[name_of(key)] = (file.stem, key)
    return found


def sign(receipt: Receipt, key: str | Path | Ed25519PrivateKey | None = None) -> Receipt:
    """Return the receipt with a signature; those it has stay.

    Parameters
    ----------
    receipt : Receipt
    key : str, Path or key, optional
        A key file. By default what the environment variable DPCONVEX_SIGNING_KEY holds or names.

    Examples
    --------
    >>> import tempfile, numpy as np, dpconvex as dc
    >>> problem = dc.Problem(dc.losses.Logistic())
    >>> plan = dc.algorithms.MeanDirection().plan(problem, n=4, d=2, budget=dc.Budget(1.0, 1e-6))
    >>> receipt = plan.run(np.ones((4, 2)), np.ones(4), dataset="to be signed").receipt
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = new_key(f"{folder}/ada")
    ...     signed = sign(receipt, f"{folder}/ada")
    ...     signers(signed, folder), bool(dc.verify(signed))
    (('ada',), True)
    """
    if not isinstance(receipt, Receipt):
        raise InputError(f"sign takes a Receipt, got {type(receipt).__name__}")
    if "signature" not in receipt.data:
        raise InputError("receipts of format 1 have no place for a signature")
    made = key if isinstance(key, Ed25519PrivateKey) else read_key(key)
    return Receipt(add_signature(receipt.data, RECEIPT, made))


def signers(receipt: Receipt, trusted: str | Path) -> tuple[str, ...]:
    """Whose signatures a receipt has, of those in a folder of trusted keys.

    Raises
    ------
    SignatureError
        If it has none, one of them does not match, or none is of a trusted key.
    """
    return check_signatures(receipt.data, RECEIPT, read_trusted(trusted))


def add_signature(data: Mapping[str, Any], kind: str, key: Ed25519PrivateKey) -> dict[str, Any]:
    """A document with one more signature, in place of an earlier one of the same key."""
    name = name_of(key.public_key())
    earlier = [] if not data.get("signature") else data["signature"]["signatures"]
    made = {"keyid": name, "sig": base64.b64encode(key.sign(_signed(data, kind))).decode()}
    return {
        **data,
        "signature": {"payloadType": kind, "signatures": [*(s for s in earlier if s["keyid"] != name), made]},
    }


def check_signatures(
    data: Mapping[str, Any], kind: str, trusted: Mapping[str, tuple[str, Ed25519PublicKey]]
) -> tuple[str, ...]:
    """Whose signatures a document has; a `SignatureError` if none is trusted or one of a trusted key does not match."""
    envelope = data.get("signature")
    if envelope is None:
        raise SignatureError("it is not signed: nobody vouches that the run took place as described")
    if not is_envelope(envelope, kind):
        raise SignatureError("its signature is of another form: it was altered, or another program made it")
    body, found = _signed(data, kind), []
    for one in envelope["signatures"]:
        if one["keyid"] not in trusted:
            continue
        name, key = trusted[one["keyid"]]
        try:
            key.verify(base64.b64decode(one["sig"]), body)
        except InvalidSignature:
            raise SignatureError(
                f"the signature of {name} does not match: it is forged, or the document was changed after it was signed"
            ) from None
        found.append(name)
    if not found:
        names = ", ".join(one["keyid"][:16] for one in envelope["signatures"])
        raise SignatureError(f"it is signed by a key that is not trusted here ({names})")
    return tuple(found)


def is_envelope(plain: Any, kind: str) -> bool:
    """Whether this has the form of signatures of that kind of document."""
    if not isinstance(plain, dict) or set(plain) != {"payloadType", "signatures"} or plain["payloadType"] != kind:
        return False
    parts = plain["signatures"]
    return isinstance(parts, list) and 1 <= len(parts) <= _MOST and all(_is_signature(part) for part in parts)


def _is_signature(part: Any) -> bool:
    if not isinstance(part, dict) or set(part) != {"keyid", "sig"}:
        return False
    name, text = part["keyid"], part["sig"]
    if not (isinstance(name, str) and _HEX.fullmatch(name) and isinstance(text, str) and len(text) == 88):
        return False
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode() == text  # the one way to write it
    except (binascii.Error, ValueError):
        return False


def _signed(data: Mapping[str, Any], kind: str) -> bytes:
    """What is signed: the type and the body, each with its length (DSSE, pre-authentication encoding)."""
    body = canonical({key: value for key, value in data.items() if key != "signature"})
    parts: Sequence[bytes] = (kind.encode(), body)
    return b"DSSEv1 " + b" ".join(b"%d %s" % (len(part), part) for part in parts)
