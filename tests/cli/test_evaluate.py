"""`dpconvex evaluate`: from a model file and a CSV of other people to metrics and a receipt."""

import json

import pytest
from cli_helpers import dpconvex, refused
from click.testing import CliRunner

import dpconvex as dc
from dpconvex.cli.evaluate import evaluate as command
from dpconvex.errors import InputError


@pytest.fixture
def held_out(clinic):
    """A model, and a file of the same form with people of its own."""
    assert clinic.fit().exit_code == 0
    return clinic.write(clinic.folder / "others.csv", [clinic.header, *clinic.rows[::2]])


def evaluate(clinic, data, *more):
    arguments = [clinic.model, data, "--dataset", f"{clinic.folder} others", "--epsilon", 2, *more]
    return CliRunner().invoke(command, [str(a) for a in arguments])


def test_metrics_and_receipt_are_printed_and_saved(clinic, held_out):
    path = clinic.folder / "evaluation.json"
    result = evaluate(clinic, held_out, "-o", path)
    assert result.exit_code == 0, result.output
    for words in ("accuracy", "log_loss", "auc", "calibration", "95% interval", "PRIVATE RELEASE", "300 rows"):
        assert words in result.stdout
    assert "keep the receipts" in result.stderr
    saved = json.loads(path.read_text())
    assert set(saved["metrics"]) == {"accuracy", "log_loss", "auc", "calibration"}
    receipt = dc.Receipt(saved["receipt"])
    assert dc.verify(receipt)
    assert receipt.private
    assert receipt.epsilon <= 2.0
    assert receipt.data["dataset"]["name"] == f"{clinic.folder} others"
    assert len(dc.account(f"{clinic.folder} others").claims) == 1


def test_metrics_and_confidence_can_be_named(clinic, held_out):
    result = evaluate(clinic, held_out, "--metric", "auc", "--metric", "accuracy", "--confidence", 0.9)
    assert result.exit_code == 0, result.output
    assert "90% interval" in result.stdout
    assert "log_loss" not in result.stdout


def test_thresholds_subgroups_and_a_report_with_the_evaluation(clinic, held_out, tmp_path):
    path, page = tmp_path / "evaluation.json", tmp_path / "report.html"
    result = evaluate(
        clinic,
        held_out,
        "--metric",
        "recall",
        "--metric",
        "pr_auc",
        "--threshold",
        0.3,
        "--subgroups",
        "sex",
        "-o",
        path,
    )
    assert result.exit_code == 0, result.output
    for words in ("'yes' is predicted above", "subgroup", "M ", "balanced accuracy"):
        assert words in result.stdout
    assert dpconvex("report", clinic.model, "--evaluation", path, "-o", page).exit_code == 0
    assert "How good the model is" in page.read_text(encoding="utf-8")
    assert dpconvex("report", path, "-o", page, "--force").exit_code == 0
    assert "Where to draw the line" in page.read_text(encoding="utf-8")
    assert "the noisy sums and metrics are those of the receipt" in dpconvex("verify", path).stdout
    both = dpconvex("account", clinic.model, path).stdout
    assert both.count("1 private releases on 1 receipts") == 2
    refused(dpconvex("report", path, "--evaluation", path, "-o", page, "--force"), "goes with the model")
    path.write_text(path.read_text().replace('"confidence": 0.95', '"confidence": 0.9'))
    refused(dpconvex("report", clinic.model, "--evaluation", path, "-o", page, "--force"), "differ", code=1)


def test_predictions_above_a_threshold(clinic):
    assert clinic.fit().exit_code == 0
    found = {}
    for threshold in (0.2, 0.5, 0.8):
        result = dpconvex("predict", clinic.model, clinic.data, "--proba", "--threshold", threshold)
        assert result.exit_code == 0, result.output
        lines = [line.rsplit(",", 2) for line in result.stdout.splitlines()[1:]]
        assert all((line[0] == "yes") == (float(line[2]) > threshold) for line in lines)
        found[threshold] = sum(line[0] == "yes" for line in lines)
    assert found[0.2] > found[0.5] > found[0.8]


def test_wrong_input_is_refused_before_anything_is_charged(clinic, held_out):
    def complaint(result, *words):
        assert isinstance(result.exception, InputError), result.exception
        for word in words:
            assert word in str(result.exception)

    complaint(evaluate(clinic, held_out, "--dataset", str(clinic.folder)), "name the data set of the held-out people")
    complaint(evaluate(clinic, held_out, "--metric", "mse"), "numbers within a declared range")
    complaint(evaluate(clinic, held_out, "--confidence", 95), "confidence")
    complaint(evaluate(clinic, held_out, "--epsilon", 0), "epsilon")
    complaint(evaluate(clinic, held_out, "-o", held_out), "also an input")
    bare = clinic.write(clinic.folder / "bare.csv", [clinic.header[:-1], *(row[:-1] for row in clinic.rows)])
    complaint(evaluate(clinic, bare), "bare.csv has no column 'ill'")
    assert evaluate(clinic, held_out, "--metric", "f1").exit_code == 2
    assert dc.account(f"{clinic.folder} others").claims == ()


def test_a_model_without_a_schema_needs_the_name_of_its_target(clinic, rng):
    X = rng.uniform(-1, 1, (400, 2))
    y = (X[:, 0] > 0).astype(int)
    options = {"feature_bound": dc.bounds.Linf(1.0), "classes": [0, 1]}
    dc.PrivateLogisticRegression(2.0, **options).fit(X, y).save(clinic.model)
    data = clinic.write(
        clinic.folder / "numbers.csv", [["a", "b", "y"], *([*row, k] for row, k in zip(X, y, strict=True))]
    )
    result = evaluate(clinic, data)
    assert "name it with --target" in str(result.exception)
    result = evaluate(clinic, data, "--target", "y")
    assert result.exit_code == 0, result.output
    assert "accuracy" in result.stdout


def test_the_command_is_one_of_dpconvex(clinic, held_out):
    result = dpconvex("evaluate", clinic.model, held_out, "--dataset", f"{clinic.folder} more", "--epsilon", 2)
    assert result.exit_code == 0, result.output
    refused(dpconvex("evaluate", clinic.model, held_out, "--epsilon", 2), "--dataset")
