"""Every command on real files; a few in a process of their own, the others in this one."""

import csv
import io
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import click
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from cli_helpers import dpconvex, refused, shell

import dpconvex as dc
from dpconvex.cli import COMMANDS, main
from dpconvex.data.files import read_batches


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from dpconvex.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = ('numba', 'sklearn', 'scipy.stats', 'pandas', 'matplotlib', 'rich.console', 'narwhals')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(name in done.stdout for name in COMMANDS)


def test_the_help_of_the_group_is_that_of_its_commands():
    context = click.Context(main)
    for name, words in COMMANDS.items():
        command = main.get_command(context, name)
        assert isinstance(command, click.Command)
        if name != "audit":  # whose own help is longer
            assert command.get_short_help_str(limit=200) == words, name


def test_without_a_command_there_is_help():
    assert "schema draft" in dpconvex().stdout
    assert dpconvex("--version").stdout.strip() == f"dpconvex, version {dc.__version__}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "No such command 'nothing'"),
        (["fti"], "Did you mean 'fit'?"),
        (["plan"], "Draft one: dpconvex schema draft"),
        (["plan"], "Missing option"),
        (["schema"], "Missing command"),
        (["fit", "--nothing"], "No such option"),
        (["plan", "--rows", "ten"], "not a valid integer"),
        (["plan", "--rows", "1"], "--rows"),
        (["datasets", "nothing"], "no data set"),
    ],
)
def test_bad_arguments(arguments, words):
    refused(dpconvex(*arguments), words)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--epsilon", "nan"),
        ("--epsilon", "0"),
        ("--epsilon", "one"),
        ("--delta", "1"),
        ("--delta", "0"),
        ("--relation", "add_remove"),
        ("--algorithm", "nothing"),
        ("--algorithm", "SufficientStatistics"),
    ],
)
def test_bad_budgets(clinic, option, value):
    budget = {"--epsilon": "1", option: value}
    options = [word for pair in budget.items() for word in pair]
    refused(dpconvex("plan", "--schema", clinic.schema, "--rows", 600, *options))
    refused(dpconvex("fit", clinic.data, "--schema", clinic.schema, *options, "-o", clinic.model))
    assert not clinic.model.exists()


def test_a_stopped_command_says_so(clinic, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpconvex.cli.schema.read_header", interrupt)
    result = dpconvex("schema", "draft", clinic.data)
    assert (result.exit_code, result.stderr.strip()) == (130, "Error: stopped")


# The way of a first use ----------------------------------------------------------------------------------------------


def test_from_a_raw_file_to_a_report_in_processes_of_their_own(clinic):
    planned = shell("plan", "--schema", clinic.schema, "--rows", 600, "--epsilon", 2)
    assert planned.returncode == 0, planned.stderr
    fitted = shell(
        "fit", clinic.data, "--schema", clinic.schema, "--target", "ill", "--epsilon", 2, "-o", clinic.model,
        "--report", clinic.report, "--strict",
    )  # fmt: skip
    assert fitted.returncode == 0, fitted.stderr
    assert fitted.stdout.startswith("PRIVATE RELEASE\n")
    assert "read from the data without privacy: nothing" in fitted.stdout
    assert "Warning" not in fitted.stderr
    assert "Releases add up" in fitted.stderr
    number = planned.stdout.split()[-1]
    assert number in fitted.stdout  # the fit followed the plan

    verified = shell("verify", clinic.model)
    assert verified.returncode == 0, verified.stderr
    assert "This plan makes this claim" in verified.stdout
    assert "Not checked" in verified.stdout

    predicted = shell("predict", clinic.model, clinic.data, "--proba")
    assert predicted.returncode == 0, predicted.stderr
    rows = list(csv.DictReader(io.StringIO(predicted.stdout)))
    truth = [row[-1] for row in clinic.rows]
    assert np.mean([row["prediction"] == label for row, label in zip(rows, truth, strict=True)]) > 0.6
    for row in rows:
        chance = float(row["probability of yes"])
        assert (chance > 0.5) == (row["prediction"] == "yes")
        assert chance + float(row["probability of no"]) == pytest.approx(1.0, abs=2e-6)

    assert "A private model of ill" in clinic.report.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "options",
    [["--relation", "zero_out"], ["--algorithm", "phasedsgd"], ["--algorithm", "NoisyGD"], ["--delta", "1e-8"]],
)
def test_a_fit_follows_the_plan_that_was_shown(clinic, options):
    clinic.declare(rows_per_person=2, name=f"{clinic.folder} {options}")
    planned = dpconvex("plan", "--schema", clinic.schema, "--rows", 600, "--epsilon", 2, *options)
    assert planned.exit_code == 0, planned.stderr
    fitted = clinic.fit(*options)
    assert fitted.exit_code == 0, fitted.stderr
    assert planned.stdout.split()[-1] == dc.load(clinic.model).receipt_.data["plan"]["digest"][:16]
    assert "2 records of one person" in planned.stdout


def test_a_plan_says_what_to_expect_and_all_algorithms_only_if_asked(clinic):
    asked = ("plan", "--schema", clinic.schema, "--rows", 600, "--epsilon", 2)
    short, long = dpconvex(*asked), dpconvex(*asked, "--all")
    first = short.stdout.split("\n\n")[0]
    assert first.startswith("What to expect: 600 records")
    assert len(first.splitlines()) <= 5
    assert "PoissonSGD" not in short.stdout
    assert long.stdout.startswith(first)
    assert "PoissonSGD" in long.stdout
    given = dpconvex(*asked, "--anchor", "auc", 0.5, 0.7)
    assert "between 0.50 without features and 0.70 without privacy" in given.stdout
    refused(dpconvex(*asked, "--anchor", "auc", 0.7, 0.5), "above the other")


def test_a_hopeless_fit_is_said_so_and_strict_refuses(clinic, tmp_path):
    head = clinic.write(tmp_path / "few.csv", [clinic.header, *clinic.rows[:5]])
    given = ("fit", head, "--schema", clinic.schema, "--epsilon", 1, "--delta", 1e-9, "-o", tmp_path / "m.json")
    refused(dpconvex(*given, "--strict"), "strict=True")
    assert not (tmp_path / "m.json").exists()
    fitted = dpconvex(*given)
    assert fitted.exit_code == 0
    assert "no better than a model that knows nothing of the features" in fitted.stderr


def test_a_plan_needs_to_know_the_classes(clinic):
    clinic.declare(target=None)
    refused(dpconvex("plan", "--schema", clinic.schema, "--rows", 600, "--epsilon", 1), "classes")


def test_more_than_two_classes(clinic):
    clinic.declare(
        columns={k: v for k, v in clinic.description["columns"].items() if k != "ward"} | {"ill": {"type": "ignore"}},
        target={"name": "ward", "classes": clinic.description["columns"]["ward"]["categories"]},
    )
    planned = dpconvex("plan", "--schema", clinic.schema, "--rows", 600, "--epsilon", 2)
    fitted = clinic.fit()
    assert fitted.exit_code == 0, fitted.stderr
    assert planned.stdout.split()[-1] in fitted.stdout
    out = dpconvex("predict", clinic.model, clinic.data, "--proba").stdout
    rows = list(csv.reader(io.StringIO(out)))
    assert len(rows) == 601
    assert all(sum(map(float, row[1:])) == pytest.approx(1.0, abs=1e-5) for row in rows[1:])


# Targets -------------------------------------------------------------------------------------------------------------


def test_the_target_is_named_once(clinic):
    refused(clinic.fit("--target", "sex"), "'sex'", "'ill'", "agree")
    clinic.declare(target=None)
    refused(clinic.fit(), "--target")
    refused(clinic.fit("--target", "age", "--model", "svc"), "declares 'age' as a column")
    refused(clinic.fit("--target", "absent", "--model", "svc"), "no column 'absent'")
    refused(clinic.fit("--target", "ill", "--strict"), "--strict")
    assert not clinic.model.exists()


def test_undeclared_classes_are_read_with_a_warning(clinic):
    clinic.declare(target=None)
    refused(clinic.fit("--target", "ill"), "--model", "classes", "numbers")
    fitted = clinic.fit("--target", "ill", "--model", "logistic")
    assert fitted.exit_code == 0
    warned = [line for line in fitted.stderr.splitlines() if line.startswith("Warning: ")]
    assert len(warned) == 1
    assert "not declared" in warned[0]
    assert "EXCEPT FOR WHAT WAS READ FROM THE DATA: classes" in fitted.stdout
    assert "EXCEPT" in dpconvex("verify", clinic.model).stdout


def test_a_range_is_no_target_for_a_classifier(clinic):
    clinic.declare(target={"name": "ill", "low": 0, "high": 1})
    refused(clinic.fit("--model", "logistic"), "classes")
    refused(dpconvex("plan", "--schema", clinic.schema, "--rows", 600, "--epsilon", 1, "--model", "svc"), "classes")


def test_classes_are_no_target_for_a_regressor(clinic):
    refused(clinic.fit("--model", "ridge"), "range of numbers")


def predict_age(clinic):
    """Make the age of the patients the target, where it is known."""
    clinic.write(clinic.data, [clinic.header, *([row[0] or "50", *row[1:]] for row in clinic.rows)])
    columns = {k: v for k, v in clinic.description["columns"].items() if k != "age"} | {"ill": {"type": "ignore"}}
    clinic.declare(columns=columns, target={"name": "age", "low": 0, "high": 120})


@pytest.mark.parametrize(
    "options",
    [(), ("--model", "huber"), ("--model", "huber", "--threshold", 5), ("--model", "quantile", "--quantile", 0.8)],
)
def test_a_range_of_numbers_is_fitted_by_a_regressor(clinic, options):
    predict_age(clinic)
    planned = dpconvex("plan", "--schema", clinic.schema, "--rows", 600, "--epsilon", 2, *options)
    fitted = clinic.fit(*options)
    assert fitted.exit_code == 0, fitted.stderr
    assert planned.stdout.split()[-1] in fitted.stdout
    predictions = [float(line) for line in dpconvex("predict", clinic.model, clinic.data).stdout.split()[1:]]
    assert len(predictions) == 600
    assert 0.0 <= min(predictions) <= max(predictions) <= 120.0
    refused(dpconvex("predict", clinic.model, clinic.data, "--proba"), "probabilities")


def test_a_quantile_goes_with_the_quantile_model(clinic):
    predict_age(clinic)
    refused(clinic.fit("--quantile", "0.5"), "--model quantile")
    refused(clinic.fit("--model", "quantile", "--quantile", "1.0"), "quantile")
    refused(clinic.fit("--threshold", "5"), "--model huber")
    refused(clinic.fit("--model", "huber", "--threshold", "-5"), "threshold")


def test_a_large_delta_is_warned_about_in_one_line(clinic):
    fitted = clinic.fit("--delta", "0.01")
    assert fitted.exit_code == 0
    warned = [line for line in fitted.stderr.splitlines() if line.startswith("Warning: ")]
    assert len(warned) == 1
    assert "1/n" in warned[0]


def test_force_replaces(clinic):
    assert clinic.fit().exit_code == 0
    first = clinic.model.read_bytes()
    refused(clinic.fit(), "exists already")
    assert clinic.model.read_bytes() == first
    again = clinic.fit("--force")
    assert again.exit_code == 0
    assert clinic.model.read_bytes() != first
    assert "Warning: release 2 about the data set" in again.stderr  # both fits were in this process


# Data that does not fit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        (0, "old", "1 no number"),
        (0, "inf", "1 outside"),
        (1, "secret", "1 not declared"),
        (2, "secret", "1 no date"),
        (3, "secret", "1 not declared"),
        (5, "secret", "ill: 1 not declared"),
        (5, "", "ill: 1 missing"),
    ],
)
def test_cells_that_were_not_declared_are_for_the_check_and_not_for_a_fit(clinic, column, cell, words):
    clinic.rows[17][column] = cell
    clinic.write(clinic.data, [clinic.header, *clinic.rows])
    checked = dpconvex("schema", "check", clinic.schema, clinic.data)
    assert checked.exit_code == (cell in ("old", "secret"))
    assert words in checked.stdout
    assert "secret" not in checked.stdout + checked.stderr
    assert clinic.fit().exit_code == 0


def test_columns_that_do_not_match(clinic):
    clinic.write(clinic.data, [[*clinic.header, "extra"], *([*row, "0"] for row in clinic.rows)])
    refused(clinic.fit(), "does not declare", "'extra'")
    clinic.write(clinic.data, [clinic.header[1:], *(row[1:] for row in clinic.rows)])
    refused(clinic.fit(), "lacks", "'age'")


def test_another_separator(clinic):
    clinic.write(clinic.data, [clinic.header, *clinic.rows], delimiter="\t")
    refused(clinic.fit(), "--separator")
    assert clinic.fit("--separator", "tab").exit_code == 0
    assert dpconvex("predict", clinic.model, clinic.data, "--separator", "tab").stdout.count("\n") == 601


def test_two_rows_are_enough_and_one_is_not(clinic):
    clinic.write(clinic.data, [clinic.header, *clinic.rows[:1]])
    refused(clinic.fit(), "at least 2 rows")
    clinic.write(clinic.data, [clinic.header, *clinic.rows[:2]])
    assert clinic.fit().exit_code == 0


# Predict -------------------------------------------------------------------------------------------------------------


def test_predictions_go_to_a_file_and_need_no_target(clinic, tmp_path):
    assert clinic.fit().exit_code == 0
    new = clinic.write(tmp_path / "new.csv", [clinic.header[:-1], *(row[:-1] for row in clinic.rows[:5])])
    out = tmp_path / "out.csv"
    assert dpconvex("predict", clinic.model, new, "-o", out).exit_code == 0
    model = dc.load(clinic.model)
    expected = model.predict(dict(zip(clinic.header, zip(*clinic.rows[:5], strict=True), strict=True)))
    assert out.read_text(encoding="utf-8").splitlines() == ["prediction", *expected]
    refused(dpconvex("predict", clinic.model, new, "-o", out), "exists already")
    refused(dpconvex("predict", clinic.model, new, "-o", new, "--force"), "also an input")
    odd = clinic.write(tmp_path / "odd.csv", [clinic.header[:-1], ["40", "X", "", "surgery", ""]])
    assert dpconvex("predict", clinic.model, odd).stdout.count("\n") == 2


def test_a_model_without_a_schema_takes_numbers(tmp_path, rng):
    X = rng.uniform(-1, 1, size=(200, 2))
    model = dc.PrivateLogisticRegression(feature_bound=2.0, classes=[0, 1]).fit(X, (X[:, 0] > 0).astype(int))
    path, data = tmp_path / "model.json", tmp_path / "data.csv"
    model.save(path)
    data.write_text("a,b\n" + "".join(f"{a!r},{b!r}\n" for a, b in X.tolist()), encoding="utf-8")
    out = dpconvex("predict", path, data).stdout.splitlines()
    assert out == ["prediction", *map(str, model.predict(X))]
    for content, words in (
        ("a\n1\n", "has 1 columns"),
        ("a,b\n1,x\n", "not finite numbers"),
        ("a,b\n1,\n", "not finite"),
    ):
        data.write_text(content, encoding="utf-8")
        refused(dpconvex("predict", path, data), words)


def test_a_model_that_knows_the_names_of_its_features_finds_them(tmp_path, rng):
    import pandas as pd

    frame = pd.DataFrame(rng.uniform(-1, 1, size=(200, 2)), columns=["a", "b"])
    model = dc.PrivateLogisticRegression(feature_bound=2.0, classes=[0, 1]).fit(frame, (frame["a"] > 0).astype(int))
    path, data = tmp_path / "model.json", tmp_path / "data.csv"
    model.save(path)
    frame.assign(more="text")[["b", "more", "a"]].to_csv(data, index=False)
    assert dpconvex("predict", path, data).stdout.splitlines()[1:] == [*map(str, model.predict(frame))]
    data.write_text("a,c\n1,2\n", encoding="utf-8")
    refused(dpconvex("predict", path, data), "lacks", "'b'")


# Verify --------------------------------------------------------------------------------------------------------------


def test_receipts_and_models_verify(clinic, tmp_path):
    assert clinic.fit().exit_code == 0
    receipt = tmp_path / "receipt.json"
    dc.load(clinic.model).receipt_.save(receipt)
    for path, words in ((receipt, "receipt"), (clinic.model, "weights are those")):
        result = dpconvex("verify", path)
        assert result.exit_code == 0, result.stderr
        assert words in result.stdout


def test_what_could_not_be_planned_again_has_a_status_of_its_own():
    result = dpconvex("verify", Path(__file__).parent.parent / "format_1" / "receipt.json")
    assert result.exit_code == 2, result.stderr
    assert "not planned again" in result.stdout


def test_what_was_altered_does_not_verify(clinic, tmp_path):
    assert clinic.fit().exit_code == 0
    whole = json.loads(clinic.model.read_text(encoding="utf-8"))
    altered = tmp_path / "altered.json"
    altered.write_text(json.dumps({**whole, "classes": ["yes", "no"]}), encoding="utf-8")
    refused(dpconvex("verify", altered), "altered", code=1)
    refused(dpconvex("predict", altered, clinic.data), "altered", code=1)
    receipt = {**whole["receipt"], "n": 601}
    altered.write_text(json.dumps(receipt), encoding="utf-8")
    refused(shell("verify", altered), "contradicts itself", code=1)


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"[]", b"{}", b'{"format": "other"}', b"[" * 200_000])
def test_what_is_neither_a_model_nor_a_receipt(tmp_path, content):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    refused(dpconvex("verify", path), "not a model" if content[:1] == b"{" and len(content) > 1 else "", code=1)


def test_a_seeded_model_protects_nobody(tmp_path):
    X = np.eye(2)[[0, 1] * 50]
    path = tmp_path / "model.json"
    dc.PrivateLogisticRegression(feature_bound=1.0, classes=[0, 1], random_state=0).fit(X, [0, 1] * 50).save(path)
    refused(dpconvex("verify", path), "NOT PRIVATE", code=1)


# Schemas -------------------------------------------------------------------------------------------------------------


def test_a_draft_is_filled_in_and_checked(clinic, tmp_path):
    path = tmp_path / "draft.json"
    drafted = dpconvex("schema", "draft", clinic.data, "--target", "ill", "-o", path)
    assert drafted.exit_code == 0
    assert drafted.stdout == ""
    assert "Replace every null" in drafted.stderr
    refused(dpconvex("schema", "check", path), "draft.json", "not finished", "'age'", "classes")
    description = json.loads(path.read_text(encoding="utf-8"))
    assert list(description["columns"]) == clinic.header[:-1]
    description["columns"] = clinic.description["columns"]
    description["target"]["classes"] = ["no", "yes"]
    description["rows_per_person"] = 1
    path.write_text(json.dumps(description), encoding="utf-8")
    checked = dpconvex("schema", "check", path, clinic.data)
    assert checked.exit_code == 0, checked.stderr
    assert "4 columns used, 1 ignored, target 'ill' with 2 classes" in checked.stdout
    assert "600 rows; cells that are missing or not as declared" in checked.stdout
    assert "not private" in checked.stdout
    assert "age: 46 missing" in checked.stdout


def test_a_draft_for_a_target_that_is_not_there(clinic):
    refused(dpconvex("schema", "draft", clinic.data, "--target", "absent"), "'absent'")


def test_a_table_may_be_checked_without_its_target(clinic, tmp_path):
    new = clinic.write(tmp_path / "new.csv", [clinic.header[:-1], *(row[:-1] for row in clinic.rows[:5])])
    assert "without the target" in dpconvex("schema", "check", clinic.schema, new).stdout


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": "dpconvex-schema/2"}', "\ud800"])
def test_what_is_no_schema(clinic, content):
    clinic.schema.write_bytes(content.encode("utf-8", "surrogatepass"))
    for command in (["schema", "check"], ["plan", "--rows", 9, "--epsilon", 1, "--schema"]):
        refused(dpconvex(*command, clinic.schema), "schema.json")


# Lists ---------------------------------------------------------------------------------------------------------------


def test_every_algorithm_is_listed_with_what_it_is_for():
    result = dpconvex("algorithms")
    assert result.exit_code == 0, result.stderr
    assert all(name in result.stdout for name in dc.algorithms.names())
    words = " ".join(result.stdout.split())
    assert "Private stochastic" in words
    assert dc.algorithms.MeanDirection.suits in words


def test_data_sets_are_listed_and_nothing_is_fetched(tmp_path):
    done = shell("datasets", env={"DPCONVEX_CACHE": str(tmp_path / "cache")})
    assert done.returncode == 0
    assert all(f'("{name}")' in done.stdout for name in dc.datasets.names())
    assert not (tmp_path / "cache").exists()
    assert dpconvex("datasets", "compas").stdout.startswith("COMPAS")


def test_a_first_line_of_values_is_no_header_and_is_not_quoted(clinic, tmp_path):
    path = clinic.write(tmp_path / "nohead.csv", [["P03895", "2022-10-10", "90", "F", "yes"]])
    told = dpconvex("schema", "draft", path)
    refused(told, "header")
    assert "P03895" not in told.output


def test_a_report_can_be_written_afterwards(clinic, tmp_path):
    model, page = tmp_path / "model.json", tmp_path / "report.html"
    assert dpconvex("fit", clinic.data, "--schema", clinic.schema, "--epsilon", "1", "-o", model).exit_code == 0
    assert dpconvex("report", model, "-o", page).exit_code == 0
    assert "PRIVATE RELEASE" in page.read_text(encoding="utf-8")
    refused(dpconvex("report", model, "-o", page), "exists")


def test_account_adds_up_files_by_data_set_and_counts_a_file_once(clinic, tmp_path):
    other = tmp_path / "other.json"
    for epsilon, path in ((1.0, clinic.model), (0.5, other)):
        dpconvex("fit", clinic.data, "--schema", clinic.schema, "--epsilon", epsilon, "-o", path)
    dc.load(other).receipt_.save(tmp_path / "receipt.json")
    claims = [dc.load(path).receipt_ for path in (clinic.model, other)]
    alone = dpconvex("account", clinic.model).stdout
    assert "1 private releases on 1 receipts" in alone
    assert f"({claims[0].epsilon:.3g}, 1e-06)-DP in total, for one record" in alone
    both = dpconvex("account", clinic.model, other, clinic.model, tmp_path / "receipt.json").stdout
    assert f"{clinic.folder}: 2 private releases on 2 receipts, 0 with a seed" in both
    total = float(both.split("replace_one: (")[1].split(",")[0])
    assert 1.0 < total <= 1.5
    altered = json.loads(other.read_text())
    altered["receipt"]["claim"]["epsilon"] = 0.01
    other.write_text(json.dumps(altered))
    refused(dpconvex("account", clinic.model, other), code=1)
    assert shell("account").returncode == 2


def test_account_states_totals_at_the_delta_of_the_receipts(tmp_path):
    plan = dc.algorithms.MeanDirection().plan(dc.Problem(dc.losses.Logistic()), n=10, d=1, budget=dc.Budget(1.0, 1e-10))
    plan.run(np.ones((10, 1)), np.ones(10), dataset="small delta").receipt.save(tmp_path / "receipt.json")
    assert "(1, 1e-10)-DP in total" in dpconvex("account", tmp_path / "receipt.json").stdout
    at = dpconvex("account", tmp_path / "receipt.json", "--delta", "1e-6").stdout
    assert f"({plan.claim.epsilon(1e-6):.3g}, 1e-06)-DP in total" in at
    assert (
        "promises nothing at so small a delta" in dpconvex("account", tmp_path / "receipt.json", "--delta", "0").stdout
    )
    refused(dpconvex("account", tmp_path / "receipt.json", "--delta", "1"), "delta")


def test_account_counts_seeded_runs_apart(tmp_path, small_plan, small):
    small_plan.run(*small, seed=1, dataset="seeded file").receipt.save(tmp_path / "receipt.json")
    assert "0 private releases on 1 receipts, 1 with a seed" in dpconvex("account", tmp_path / "receipt.json").stdout


def test_a_summary_names_the_columns_and_draws_them(clinic, tmp_path):
    assert clinic.fit().exit_code == 0
    shown = dpconvex("summary", clinic.model, "--svg", tmp_path / "forest.svg")
    assert shown.exit_code == 0, shown.stderr
    for name in ("age ", "sex=F", "admitted is missing", "ward=surgery", "(intercept)", "log-odds of 'yes'"):
        assert name in shown.stdout
    assert (tmp_path / "forest.svg").read_text(encoding="utf-8").startswith("<svg")
    refused(dpconvex("summary", clinic.model, "--confidence", "1"), "confidence")
    refused(dpconvex("summary", clinic.model, "--svg", tmp_path / "forest.svg"), "--force")


def test_a_summary_with_the_rows_is_another_release_with_a_receipt(clinic, tmp_path):
    assert clinic.fit("--algorithm", "ObjectivePerturbation").exit_code == 0
    receipt = tmp_path / "noise.json"
    more = ("--data", clinic.data, "--epsilon", "0.5", "--receipt", receipt)
    shown = dpconvex("summary", clinic.model, *more)
    assert shown.exit_code == 0, shown.stderr
    assert "?" not in shown.stdout
    assert "Releases add up" in shown.stderr
    assert f"{clinic.folder}: 2 private releases on 2 receipts" in dpconvex("account", clinic.model, receipt).stdout
    refused(dpconvex("summary", clinic.model, "--epsilon", "1"), "go together")
    refused(dpconvex("summary", clinic.model, *more), "--force")
    assert clinic.fit("--algorithm", "NoisyGD", "--force").exit_code == 0
    refused(dpconvex("summary", clinic.model, *more, "--force"))


# Many files ------------------------------------------------------------------------------------------------------


def many(clinic, kind):
    """The visits as three files of a folder, and the pattern that names them."""
    folder = clinic.folder / kind
    folder.mkdir()
    for i, a in enumerate(range(0, 600, 250)):
        rows = clinic.rows[a : a + 250]
        if kind == "csv":
            clinic.write(folder / f"{i}.csv", [clinic.header, *rows])
        else:
            columns = dict(zip(clinic.header, map(list, zip(*rows, strict=True)), strict=True))
            pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"{i}.parquet")
    return folder / f"*.{kind}"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_are_fitted_and_predicted_part_by_part(clinic, kind):
    pattern = many(clinic, kind)
    fitted = dpconvex("fit", pattern, "--schema", clinic.schema, "--epsilon", "30", "-o", clinic.model)
    assert fitted.exit_code == 0, fitted.output
    model = dc.load(clinic.model)
    assert model.receipt_.sections["engine"]["rows"] == "parts"
    assert model.receipt_.sections["plan"]["n"] == 600
    out = clinic.folder / "out.csv"
    assert dpconvex("predict", clinic.model, pattern, "-o", out, "--proba").exit_code == 0
    one = dpconvex("predict", clinic.model, clinic.data, "--proba").stdout
    assert out.read_text(encoding="utf-8") == one
    assert sorted(p.name for p in clinic.folder.iterdir() if p.name.startswith(".")) == []


def test_predictions_are_written_as_they_are_made(clinic, monkeypatch):
    dpconvex("fit", clinic.data, "--schema", clinic.schema, "--epsilon", "30", "-o", clinic.model)
    whole = dpconvex("predict", clinic.model, clinic.data).stdout
    monkeypatch.setattr("dpconvex.cli.predict.read_batches", partial(read_batches, size=7))
    assert dpconvex("predict", clinic.model, clinic.data).stdout == whole
    bad = clinic.write(clinic.folder / "bad.csv", [clinic.header, *clinic.rows[:20], clinic.rows[20][:3]])
    out = clinic.folder / "out.csv"
    refused(dpconvex("predict", clinic.model, bad, "-o", out), "row 21 after the header has 3 cells")
    assert not out.exists()
    assert sorted(p.name for p in clinic.folder.iterdir() if p.name.startswith(".")) == []


def test_workers_read_files_and_release_the_bits_of_one_process(clinic, monkeypatch):
    pattern, seen = many(clinic, "csv"), []

    class Threads(ThreadPoolExecutor):
        def __init__(self, count, context):
            seen.append(count)
            super().__init__(count)

    monkeypatch.setattr("dpconvex.cli.options.ProcessPoolExecutor", Threads)
    fit = "fit", pattern, "--schema", clinic.schema, "--epsilon", "30", "-o", clinic.model
    assert dpconvex(*fit, "--workers", "2", "--memory", "1 MB").exit_code == 0
    assert seen == [2]
    refused(dpconvex(*fit, "--force", "--workers", "2", "--cluster", "tcp://127.0.0.1:1"), "exclude each other")
    refused(dpconvex(*fit, "--force", "--memory", "much"), "number of bytes")
    refused(dpconvex("fit", clinic.folder / "no*.csv", *fit[2:]), "names no file")
