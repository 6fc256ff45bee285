"""Tests that keep the house tidy: names, docs and entry points say the same everywhere."""

import ast
import subprocess
import sys
from dataclasses import fields

import click
import pytest
import yaml
from conftest import PROJECT

import actionflow
from actionflow.cli import cli
from actionflow.training.data import dataset_names
from actionflow.training.mending.settings import CorrectStep, DefuseSettings, DistillStep, IdentifyStep, VaeStep
from actionflow.training.settings import AutoencoderSettings, RobustSettings, TextSettings, VisionSettings
from actionflow.training.texts import text_dataset_names

ENTRY_POINTS = yaml.safe_load((PROJECT / "MLproject").read_text())["entry_points"]


def _trainings(project):
    return {name: point for name, point in ENTRY_POINTS.items() if f"python -m projects.{project} " in point["command"]}


VISION, TEXT, AUTOENCODER = _trainings("vision"), _trainings("text"), _trainings("autoencoder")
SETTINGS = {**dict.fromkeys(VISION, VisionSettings), **dict.fromkeys(TEXT, TextSettings)}
SETTINGS |= dict.fromkeys(AUTOENCODER, AutoencoderSettings)
SETTINGS |= dict.fromkeys(_trainings("robust"), RobustSettings)
README = (PROJECT / "README.md").read_text()


def test_every_data_set_is_an_entry_point_and_main_is_the_demo():
    names = {"main": "digits", **{name: name for name in dataset_names()}}
    assert {name: point["parameters"]["dataset"]["default"] for name, point in VISION.items()} == names


def test_every_text_data_set_is_an_entry_point():
    names = {name: name for name in text_dataset_names()}
    assert {name: point["parameters"]["dataset"]["default"] for name, point in TEXT.items()} == names


def test_an_autoencoder_has_one_entry_point_for_all_data_sets():
    assert list(AUTOENCODER) == ["autoencoder"]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_training_takes_every_setting_with_its_default(name):
    kind = SETTINGS[name]
    parameters = {key: value["default"] for key, value in ENTRY_POINTS[name]["parameters"].items()}
    expected = {field.name: field.default for field in fields(kind)} | {"run_name": "", "resume": ""}
    expected |= {"dataset": parameters["dataset"]}
    assert parameters == (expected | {"model": "t5-base"} if name == "samsum" else expected)


MENDING = {
    "defuse": DefuseSettings,
    "vae": VaeStep,
    "identify": IdentifyStep,
    "distill": DistillStep,
    "correct": CorrectStep,
}


@pytest.mark.parametrize(("name", "kind"), MENDING.items())
def test_a_step_of_mending_takes_every_setting_with_its_default(name, kind):
    parameters = {key: value.get("default", "") for key, value in ENTRY_POINTS[name]["parameters"].items()}
    assert parameters == {field.name: field.default for field in fields(kind)}


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_an_entry_point_hands_every_parameter_on(name):
    command = ENTRY_POINTS[name]["command"]
    assert all(f"--{key} {{{key}}}" in command for key in ENTRY_POINTS[name]["parameters"])


@pytest.mark.parametrize("verb", sorted(cli.commands))
def test_every_verb_has_a_sentence_and_an_example(verb):
    text = cli.commands[verb].get_help(click.Context(cli.commands[verb], info_name=verb))
    assert "Example" in text
    assert f"actionflow {verb}" in text


def test_every_public_name_has_a_docstring():
    assert all(getattr(actionflow, name).__doc__ for name in actionflow.__all__)


def modules_after(code):
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    return set(shown.stdout.split())


def test_importing_the_package_loads_neither_torch_nor_mlflow():
    assert not modules_after("import actionflow") & {"torch", "mlflow", "pyarrow", "duckdb", "numpy"}


def test_help_loads_neither_torch_nor_mlflow():
    code = "from actionflow.cli import cli\ntry:\n cli(['--help'])\nexcept SystemExit:\n pass\n"
    shown = subprocess.run(
        [sys.executable, "-c", code + "import sys; print(*sys.modules)"], capture_output=True, text=True
    )
    assert "Which samples does a model struggle with" in shown.stdout
    assert not set(shown.stdout.split()) & {"torch", "mlflow", "pyarrow", "duckdb", "numpy"}


def test_the_two_lists_of_requirements_are_one():
    """pyproject.toml and python_env.yaml both read requirements.txt."""
    assert 'dependencies = { file = ["requirements.txt"] }' in (PROJECT / "pyproject.toml").read_text()
    assert yaml.safe_load((PROJECT / "python_env.yaml").read_text()) == {"dependencies": ["-r requirements.txt"]}


def test_every_requirement_has_a_lower_bound_and_a_known_good_version():
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines("constraints.txt")}
    for name in ("requirements.txt", "requirements-dev.txt", "requirements-studies.txt", "requirements-robust.txt"):
        for line in lines(name):
            package, bound, _ = line.partition(">=")
            assert bound, line
            assert package.lower() in pinned


def lines(name):
    text = (PROJECT / name).read_text()
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_the_readme_names_the_commands_that_exist():
    for target in ("make demo", "make setup", "make test", "make bench"):
        assert target in README
        assert f"\n{target.split()[1]}:" in (PROJECT / "Makefile").read_text()
    assert "make test" in (PROJECT / ".ci" / "run").read_text()
    named = {word for line in README.splitlines() for word in _verbs(line)}
    assert named <= set(cli.commands), named - set(cli.commands)


def _verbs(line):
    """The verbs in a line such as `$ actionflow hardest digits-seed-0`."""
    words = line.strip().removeprefix("$ ").split()
    return [words[1]] if len(words) > 1 and words[0] == "actionflow" and words[1].isidentifier() else []


def test_the_readmes_python_is_python():
    blocks = README.split("```python")[1:]
    assert blocks
    for block in blocks:
        ast.parse(block.partition("```")[0])
