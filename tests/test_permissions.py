"""Who may see and change what: `actionflow serve --auth`, a real server that asks MLflow's own permissions."""

import re
import subprocess
import sys

import mlflow
import pytest
import requests
from conftest import PROJECT
from made_up_runs import with_pictures
from mlflow.server import get_app_client
from servers import Server

import actionflow
from actionflow.errors import ActionFlowError
from actionflow.serving.app import OURS

API, PAGES = "/ajax-api/actionflow", "/actionflow"
ADMIN = ("admin", "password-of-the-admin")
READER = ("reader", "password-of-the-reader")
EDITOR = ("editor", "password-of-the-editor")
STRANGER = ("stranger", "password-of-the-stranger")
# A sample of the split train; those of val are 16 to 31.
MARK = {"sample_id": 0, "mark": "fine"}
DIGEST = "digest-1"


def auth_config(folder):
    path = folder / "auth.ini"
    path.write_text(
        "[mlflow]\ndefault_permission = NO_PERMISSIONS\nadmin_username = admin\n"
        f"database_uri = sqlite:///{folder}/auth.db\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
        "auth_cache_ttl_seconds = 60\n"  # hashing a password for each of a recording's requests takes its time
    )
    return path


@pytest.fixture(scope="module")
def server(module_store):
    environment = {
        "MLFLOW_AUTH_CONFIG_PATH": str(auth_config(module_store.folder)),
        "MLFLOW_AUTH_ADMIN_PASSWORD": ADMIN[1],
    }
    served = Server(module_store.folder, ("-m", "actionflow.cli", "serve", "--auth"), environment)
    try:
        served.start()
        yield served
    finally:
        served.stop()


@pytest.fixture
def people(server, monkeypatch):
    """MLflow's own list of users and what they may do, in the hands of its admin."""
    return as_admin(server, monkeypatch)


def as_admin(server, patch):
    patch.setenv("MLFLOW_TRACKING_USERNAME", ADMIN[0])
    patch.setenv("MLFLOW_TRACKING_PASSWORD", ADMIN[1])
    return get_app_client("basic-auth", server.uri)


@pytest.fixture(scope="module")
def runs(server):
    """A run in each of two experiments: one may be read by `reader` and changed by `editor`, one by the admin alone."""
    with pytest.MonkeyPatch.context() as patch:
        people = as_admin(server, patch)
        patch.setenv("MLFLOW_TRACKING_URI", server.uri)
        patch.delenv("MLFLOW_EXPERIMENT_NAME")
        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(server.uri)
        found = {}
        for name in ("hidden", "open"):
            found[f"{name} experiment"] = mlflow.set_experiment(name).experiment_id
            found[name] = with_pictures(f"{name} run", mlflow.MlflowClient(server.uri))
        for who in (READER, EDITOR, STRANGER):
            people.create_user(*who)
        people.grant_user_permission(READER[0], "experiment", found["open experiment"], "READ")
        people.grant_user_permission(EDITOR[0], "experiment", found["open experiment"], "EDIT")
        mlflow.set_tracking_uri(before)
    return found


@pytest.fixture
def get(server, runs):
    def got(path, who=None, **parameters):
        return requests.get(f"{server.uri}{path}", params=parameters, auth=who, timeout=60)

    return got


@pytest.fixture
def post(server, runs):
    def posted(path, content, who=None):
        return requests.post(f"{server.uri}{API}/{path}", json=content, auth=who, timeout=60)

    return posted


@pytest.fixture
def names(post):
    """What a visitor finds in the view `runs`."""

    def found(who):
        answer = post("sql", {"sql": "select name from runs"}, who)
        assert answer.status_code == 200, answer.text
        return {row["name"] for row in answer.json()["rows"]}

    return found


def pages_of(run):
    """Every page of a run, and a picture."""
    there = f"{PAGES}/runs/{run}"
    return [
        there,
        *(f"{there}/{page}" for page in ("samples/val/16", "curriculum", "failures", f"pictures/{DIGEST}/16.png")),
    ]


OUR_ROUTES = sorted(
    (method, re.sub(r"{\w+}", "1", route.path))
    for router in OURS
    for route in router.routes
    for method in route.methods
)


@pytest.mark.parametrize("who", [None, ("reader", "wrong password"), ("nobody", "password-of-nobody")])
def test_without_a_name_no_page_and_no_question_is_answered(server, runs, who):
    assert len(OUR_ROUTES) > 15
    for method, path in OUR_ROUTES:
        told = requests.request(
            method, f"{server.uri}{path}", auth=who, timeout=60, **({"json": {}} if method == "POST" else {})
        )
        assert told.status_code == 401, path
        assert told.headers["www-authenticate"].startswith("Basic"), path


def test_the_admin_sees_all(get, names, runs):
    assert names(ADMIN) == {"open run", "hidden run"}
    for run in ("open", "hidden"):
        assert [get(path, ADMIN).status_code for path in pages_of(runs[run])] == [200] * 5
    assert f"{PAGES}/runs/{runs['hidden']}" in get(f"{PAGES}/runs/{runs['open']}/samples/val/16", ADMIN).text


def test_a_run_that_one_may_not_read_is_in_no_list(get, names):
    assert names(READER) == names(EDITOR) == {"open run"}
    assert names(STRANGER) == set()
    for who, there in {READER: True, STRANGER: False}.items():
        for path in (f"{PAGES}/", f"{API}/runs", f"{PAGES}/sql?sql=select+name+from+runs"):
            page = get(path, who)
            assert page.status_code == 200, page.text
            assert ("open run" in page.text, "hidden run" in page.text) == (there, False), path


@pytest.mark.parametrize("who", [READER, EDITOR, STRANGER])
def test_a_run_that_one_may_not_read_has_no_page(get, runs, who):
    hidden = runs["hidden"]
    paths = [
        *pages_of(hidden),
        f"{PAGES}/compare?runs={hidden},{runs['open']}",
        f"{PAGES}/sql?sql=from+scores&runs={hidden}",
    ]
    for path in paths:
        told = get(path, who)
        assert told.status_code == 404, path
        assert "hidden run" not in told.text
    assert f"{PAGES}/runs/{hidden}" not in get(f"{PAGES}/runs/{runs['open']}/samples/val/16", who).text


def test_no_word_leads_to_a_run_that_one_may_not_read(post, get, runs):
    hidden = runs["hidden"]
    for word in (hidden, hidden[:8], "hidden run", "hidden", "attributes.run_name like '%hidden%'"):
        told = post("sql", {"sql": "select * from scores", "runs": [word]}, READER)
        assert told.status_code == 404
        assert "hidden run" not in told.text.replace(word, "")
        assert get(f"{API}/query/hardest", READER, runs=word).status_code == 404
    for view in ("dynamics", "scores", "features", "samples"):
        seen = post("sql", {"sql": f"select count(*) as n from {view}"}, STRANGER)
        assert seen.json()["rows"] == [{"n": 0}], view


def test_what_one_may_not_read_cannot_be_marked_or_ordered(post, get, runs):
    post("marks", {"run": runs["hidden"], "marks": [MARK]}, ADMIN)
    for run in (runs["hidden"], "hidden run"):
        assert post("marks", {"run": run, "marks": [MARK]}, EDITOR).status_code == 404
        assert post("curricula", {"run": run}, EDITOR).status_code == 404
    assert get(f"{API}/marks", EDITOR, experiment="hidden").status_code == 404
    of_hidden = [row["experiment_id"] for row in get(f"{API}/marks", EDITOR, history="true").json()["rows"]]
    assert runs["hidden experiment"] not in of_hidden
    assert len(get(f"{API}/marks", ADMIN, experiment="hidden").json()["rows"]) == 1


def test_who_may_read_reads_and_changes_nothing(post, get, runs):
    assert [get(path, READER).status_code for path in pages_of(runs["open"])] == [200] * 5
    assert "You may look at this run but not mark its samples" in get(pages_of(runs["open"])[1], READER).text
    for path, content in {"marks": {"run": runs["open"], "marks": [MARK]}, "curricula": {"run": runs["open"]}}.items():
        told = post(path, content, READER)
        assert (told.status_code, told.json()["kind"]) == (403, "ForbiddenError")
        assert told.json()["error"].startswith("reader may look at run open run but not ")


def test_who_may_edit_marks_under_their_own_name_and_writes_curricula(post, runs):
    told = post("marks", {"run": runs["open"], "marks": [MARK], "marked_by": "somebody else"}, EDITOR)
    assert [row["marked_by"] for row in told.json()["rows"]] == ["editor"]
    told = post("curricula", {"run": runs["open"], "fraction": 0.5}, EDITOR)
    assert told.status_code == 200, told.text
    seen = post("sql", {"sql": "select count(*) as n from curricula"}, READER)
    assert seen.json()["rows"] == [{"n": 8}]


def test_the_queue_of_an_audit_asks_the_same_permissions(server, get, runs):
    for run, who, status in (("open", READER, 400), ("hidden", READER, 404), ("open", STRANGER, 404)):
        page = get(f"{PAGES}/runs/{runs[run]}/audit", who)
        assert page.status_code == status
        assert ("16 train samples have a finite aum" in page.text) == (status == 400)

    def send(run, who):
        form = {"sample_id": 1, "mark": "fine", "marked_by": "somebody else"}
        to, headers = f"{server.uri}{API}/audit/{runs[run]}", {"Origin": server.uri}
        return requests.post(to, data=form, headers=headers, auth=who, timeout=60, allow_redirects=False).status_code

    tried = (("open", READER), ("open", STRANGER), ("hidden", EDITOR), ("open", None), ("open", EDITOR))
    assert [send(run, who) for run, who in tried] == [403, 404, 404, 401, 303]
    rows = get(f"{API}/marks", EDITOR, experiment="open").json()["rows"]
    assert {row["marked_by"] for row in rows if row["sample_id"] == 1} == {"editor"}


def test_a_permission_counts_from_the_moment_it_is_given_until_it_is_taken(people, get, names, runs):
    (page, *_), experiment = pages_of(runs["hidden"]), runs["hidden experiment"]
    people.grant_user_permission(STRANGER[0], "experiment", experiment, "READ")
    assert names(STRANGER) == {"hidden run"}
    assert get(page, STRANGER).status_code == 200
    people.revoke_user_permission(STRANGER[0], "experiment", experiment)
    assert names(STRANGER) == set()
    assert get(page, STRANGER).status_code == 404


def test_python_logs_in_as_mlflow_clients_do(server, runs, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", READER[0])
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", READER[1])
    assert actionflow.connect(server.uri).sql("select name from runs").to_pylist() == [{"name": "open run"}]
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME")
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD")
    with pytest.raises(ActionFlowError, match="set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"):
        actionflow.connect(server.uri).sql("select 1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tracking-uri", "http://127.0.0.1:9", "serve"], "is a server already: name a store"),
        (["serve", "--auth"], "needs a password to create the admin user"),
    ],
)
def test_serve_says_what_it_lacks(tmp_path, words, said):
    done = subprocess.run(
        [sys.executable, "-m", "actionflow.cli", *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": "", "PYTHONPATH": str(PROJECT), "MLFLOW_AUTH_CONFIG_PATH": str(auth_config(tmp_path))},
    )
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert said in line
