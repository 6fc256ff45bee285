"""Strangers ask: nothing is read, written or left running, and the next honest question still works."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PROJECT

from actionflow.errors import QueryError
from actionflow.serving.answering import Question, View
from actionflow.serving.limits import Limits
from actionflow.serving.sandbox import BusyError, Sandbox
from actionflow.store import schema

CANARY = "canary-5c1e0b77"
LIMITS = Limits(seconds=2, megabytes=512, rows=1000, answer_megabytes=1, patience=60)

# What reads files, folders and the network. {here} is a folder with a secret in several formats.
READS = """
select * from read_text('{here}/secret.txt')
select * from read_blob('{here}/secret.txt')
select content from read_text('{here}/*')
select * from glob('{here}/*')
select * from glob('/etc/*')
from '{here}/secret.csv'
from "{here}/secret.parquet"
select * from '{here}/secret.parquet'
select * from read_csv('{here}/secret.csv')
select * from read_csv_auto('{here}/secret.csv')
select * from sniff_csv('{here}/secret.csv')
select * from read_json('{here}/secret.json')
select * from read_json_auto('{here}/secret.json')
select * from read_json_objects('{here}/secret.json')
select * from read_ndjson('{here}/secret.json')
select * from read_ndjson_objects('{here}/secret.json')
select * from read_parquet('{here}/secret.parquet')
select * from parquet_scan('{here}/secret.parquet')
select * from read_parquet(['{here}/secret.parquet'], union_by_name = true)
select * from parquet_metadata('{here}/secret.parquet')
select * from parquet_schema('{here}/secret.parquet')
select * from parquet_file_metadata('{here}/secret.parquet')
select * from parquet_kv_metadata('{here}/secret.parquet')
select * from parquet_bloom_probe('{here}/secret.parquet', 'secret', '{secret}')
select * from read_blob('/proc/self/environ')
select * from read_text('/proc/self/cmdline')
select * from read_text('/proc/self/maps')
select * from read_blob('/proc/1/environ')
select * from read_text('/etc/passwd')
select * from read_text('file://{here}/secret.txt')
select * from read_text('{here}/../{name}/secret.txt')
select * from read_text('/dev/stdin')
select * from read_text('/dev/fd/0')
select * from read_text('/dev/fd/3')
select * from read_csv('http://127.0.0.1:{port}/secret.csv')
select * from read_parquet('https://127.0.0.1:{port}/secret.parquet')
select * from read_parquet('s3://bucket/secret.parquet')
select * from read_text('hf://datasets/a/b.txt')
select * from read_csv('az://container/a.csv')
select * from sqlite_scan('{here}/secret.db', 't')
select * from postgres_scan('host=127.0.0.1 port={port}', 'public', 't')
select * from mysql_query('db', 'select 1')
select * from iceberg_scan('{here}')
select * from delta_scan('{here}')
select * from st_read('{here}/secret.json')
select * from read_xlsx('{here}/secret.xlsx')
select * from query('select * from read_text(''{here}/secret.txt'')')
select * from query_table('{here}/secret.parquet')
select (select content from read_text('{here}/secret.txt'))
with x as (from read_text('{here}/secret.txt')) select * from x
select * from scores where exists (select 1 from read_text('{here}/secret.txt'))
select /* harmless */ * from /**/ read_text /* */ ('{here}/secret.txt')
select * from READ_TEXT(E'{here}\\x2fsecret.txt')
select * from ＲＥＡＤ_text('{here}/secret.txt')
select * from read_text(chr(47) || 'etc' || chr(47) || 'passwd')
select * from "read_text"('{here}/secret.txt')
select * from system.main.read_text('{here}/secret.txt')
explain analyze select * from read_text('{here}/secret.txt')
describe select * from read_parquet('{here}/secret.parquet')
summarize from '{here}/secret.parquet'
select * from csv_reader
select * from question
select * from engine
select * from os
"""

# What writes, starts, loads or changes something.
WRITES = """
copy (select 1) to '{here}/new.csv'
copy scores to '{here}/new.parquet' (format parquet)
copy (select 1) to '{here}/secret.txt'
copy (select 1) to '/dev/stdout'
with x as (copy (select 1 as a) to '{here}/new.parquet' (format parquet, use_tmp_file false)) select * from x
with x as (copy (select 1 as a) to '{here}/secret.parquet' (format parquet, use_tmp_file false)) select * from x
with x as (insert into scores select * from scores returning *) select * from x
select * from (copy (select 1) to '{here}/new.csv')
copy scores from '{here}/secret.csv'
export database '{here}/export'
import database '{here}'
attach '{here}/new.db' as other
attach '{here}/secret.db' (type sqlite)
attach ':memory:' as other
detach memory
use memory
install httpfs
install httpfs from 'http://127.0.0.1:{port}'
force install httpfs
load httpfs
load '{here}/secret.txt'
load parquet
update extensions
checkpoint
vacuum
create table t as select * from scores
create or replace view scores as select 1
create or replace temp view scores as select 'forged' as run_id
drop view scores
alter view scores rename to other
insert into scores values (1)
delete from scores
update scores set action = 0
create macro sum(x) as 0
create or replace function count(x) as table select 1
create type t as enum ('a')
create schema other
create sequence s
create index i on scores (sample_id)
create secret s (type s3, key_id 'a', secret 'b')
create persistent secret s (type http, bearer_token 'x')
drop secret s
set memory_limit = '100GB'
set threads = 1000
set global enable_external_access = true
set enable_external_access = true
set lock_configuration = false
set temp_directory = '{here}'
set home_directory = '{here}'
set allowed_directories = ['/']
set allowed_paths = ['{here}/secret.txt']
set python_enable_replacements = true
set allow_unsigned_extensions = true
set custom_extension_repository = 'http://127.0.0.1:{port}'
set log_query_path = '{here}/log.txt'
set profiling_output = '{here}/profile.json'
set file_search_path = '{here}'
set variable x = 1
reset enable_external_access
reset lock_configuration
reset all
pragma enable_profiling = 'json'
pragma profile_output = '{here}/profile.json'
pragma enable_logging
pragma database_list
pragma memory_limit = '100GB'
call enable_logging(storage = 'file', storage_path = '{here}/logs')
call pragma_version()
call force_checkpoint()
prepare p as select * from read_text('{here}/secret.txt')
execute p
deallocate p
begin transaction
select 1; select * from read_text('{here}/secret.txt')
select 1; set lock_configuration = false; select 2
select 1; copy (select 1) to '{here}/new.csv'
;;; attach '{here}/new.db'
-- harmless\nset lock_configuration = false
explain copy (select 1) to '{here}/new.csv'
explain analyze copy (select 1) to '{here}/new.csv'
select * from enable_logging()
select * from write_log('x')
select * from duckdb_secrets() as s, (select set_config('a', 'b'))
select pg_read_file('{here}/secret.txt')
select system('touch {here}/new')
select shell('touch {here}/new')
select getvariable('x') || getenv('SECRET_OF_THE_SERVER')
select getenv('SECRET_OF_THE_SERVER')
"""

# What looks around. It may answer, but nothing that is ours to keep.
LOOKS = """
select * from duckdb_settings()
select current_setting('secret_directory') || current_setting('home_directory')
select current_setting('temp_directory')
select * from duckdb_databases()
select * from pragma_database_list()
select * from duckdb_views()
select sql from duckdb_views() where not internal
select * from duckdb_tables()
select * from duckdb_columns()
select * from duckdb_functions() where function_name like '%arrow%'
select * from duckdb_extensions()
select * from duckdb_secrets()
select * from duckdb_temporary_files()
select * from duckdb_external_file_cache()
select * from duckdb_memory()
select * from duckdb_variables()
select * from duckdb_logs
select * from duckdb_prepared_statements()
select * from sqlite_master
select * from information_schema.tables
select * from pg_catalog.pg_views
select * from pragma_storage_info('scores')
select * from pragma_user_agent()
select * from which_secret('s3://bucket', 's3')
select current_database(), current_schema(), current_user, version()
select * from python_arrow_scan()
select * from arrow_scan(1, 2, 3)
select * from arrow_scan(94000000000000::ubigint, 1, 1)
select * from arrow_scan_dumb(1, 1, 1)
select * from pandas_scan(1)
select * from python_map_function(1)
select error('{here}')
"""

# What takes more than there is. Each ends by the clock or by the limit of memory.
BOMBS = """
select count(*) from range(1000000000000)
select sum(a.range * b.range) from range(1000000) a, range(1000000) b
select count(*) from scores a, scores b, scores c, scores d, scores e, scores f, scores g
with recursive t as (select 1 as x union all select x + 1 from t) select max(x) from t
with recursive t as (select 'x' as x union all select x || x from t) select max(length(x)) from t
select list(range) from range(1000000000)
select repeat('x', 4000000000)
select length(repeat(repeat('x', 100000000), 20))
select string_agg(repeat('x', 1000000)) from range(100000)
select array_agg(repeat(range::varchar, 1000)) from range(10000000)
select range(1000000000000)
select generate_series(1, 1000000000000)
select list_transform(range(100000000), lambda x: repeat('x', 1000))
select list_reduce(range(1000000000), lambda x, y: x + y)
select map_from_entries(list_zip(range(100000000), range(100000000)))
select bitstring_agg(range) from range(1000000000000)
select regexp_replace(repeat('a', 100000000), '(a|a)*$', 'b', 'g')
select regexp_matches(repeat('a', 10000000), '(((a{1,100}){1,100}){1,100})b')
select sha256(repeat('x', 400000000)) from range(1000)
select levenshtein(repeat('a', 200000), repeat('b', 200000))
select printf('%2000000000s', 'x')
select lpad('x', 2000000000, 'y')
select rpad('x', 2147483647, 'y')
select * from range(100000000) order by hash(range)
select range, row_number() over (order by hash(range)) from range(100000000)
select distinct hash(range) from range(1000000000)
select unnest(range(1000000000))
select factorial(100000000)
select * from repeat_row('x', num_rows = 100000000000)
select * from test_all_types(), range(100000000)
pivot (select range from range(1000000)) on range
select sum(range) from range(1e11::bigint)
select sleep_ms(60000)
select count(*) from generate_series('1900-01-01'::timestamp, '2900-01-01'::timestamp, interval '1 microsecond')
"""


def lines(text, **words):
    for word, value in words.items():
        text = text.replace(f"{{{word}}}", str(value))
    return [line.replace("\\n", "\n") for line in text.strip().splitlines()]


def nested(depth):
    """Statements that are deeper than any parser likes."""
    return [
        "select " + "(" * depth + "1" + ")" * depth,
        "select " + "-" * (2 * depth) + "1" if depth % 2 else "select " + "- " * depth + "1",
        "select " + "[" * depth + "]" * depth,
        "select " + "case when true then " * depth + "1" + " end" * depth,
        "select * from " + "(select * from " * depth + "scores" + ")" * depth,
        " union all ".join(["select 1"] * depth),
        "select '" + "x" * depth + "\0'",
        "select " + "not " * depth + "true",
        "select 1 " + "+ 1" * depth,
        "\ufeffselect\u00a01\u202e",
    ]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with a secret in it, in every format that DuckDB reads."""
    folder = tmp_path_factory.mktemp("secrets")
    for name in ("secret.txt", "secret.csv", "secret.db"):
        (folder / name).write_text(f"secret\n{CANARY}\n")
    (folder / "secret.json").write_text(json.dumps({"secret": CANARY}))
    pq.write_table(pa.table({"secret": [CANARY]}), folder / "secret.parquet")
    return folder


@pytest.fixture(scope="module")
def listener():
    """A port that hears when somebody goes to the network."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        yield server


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "val.parquet"
    rows = {"run_id": ["r1"] * 100, "split": ["val"] * 100, "sample_id": range(100), "action": [0.5] * 100}
    pq.write_table(pa.table(rows), path)
    return path


@pytest.fixture(scope="module")
def box():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET_OF_THE_SERVER", CANARY)
        sandbox = Sandbox(LIMITS)
        sandbox.warm_up()
        yield sandbox
        sandbox.close()


@pytest.fixture(scope="module")
def ask(box, scores):
    """Ask as a stranger would: the answer's bytes, or the message."""

    def asked(sql, form="json", limits=LIMITS, **parameters):
        views = {"scores": View((str(scores),), None, schema.SCORES)}
        try:
            return box.ask(Question(sql, form, limits, parameters, views)).body
        except QueryError as error:
            return error

    return asked


def state(folder):
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.rglob("*"))}


def honest(ask):
    rows = json.loads(ask("select count(*) as n, sum(action) as action from scores"))["rows"]
    return rows == [{"n": 100, "action": 50.0}]


def all_of(ask, statements):
    with ThreadPoolExecutor(4) as threads:
        return dict(zip(statements, threads.map(ask, statements), strict=True))


def check_nothing_happened(here, before, listener, answers):
    assert state(here) == before
    assert [sql for sql, answer in answers.items() if CANARY in str(answer) and CANARY not in sql] == []
    with pytest.raises(BlockingIOError):
        listener.accept()


def words(here, listener):
    return {"here": here, "name": here.name, "secret": CANARY, "port": listener.getsockname()[1]}


def test_the_corpus_is_large():
    assert len(lines(READS) + lines(WRITES) + lines(LOOKS) + lines(BOMBS)) >= 200


def test_nothing_is_read(ask, here, listener):
    before = state(here)
    answers = all_of(ask, lines(READS, **words(here, listener)))
    check_nothing_happened(here, before, listener, answers)
    assert [sql for sql, answer in answers.items() if not isinstance(answer, QueryError)] == []
    assert honest(ask)


def test_nothing_is_written_loaded_or_changed(ask, here, listener):
    before = state(here)
    answers = all_of(ask, lines(WRITES, **words(here, listener)))
    check_nothing_happened(here, before, listener, answers)
    assert [sql for sql, answer in answers.items() if not isinstance(answer, QueryError)] == []
    assert honest(ask)


def test_who_looks_around_finds_nothing_of_the_machine(ask, here, scores, listener):
    before = state(here)
    answers = all_of(ask, lines(LOOKS, **words(here, listener)))
    check_nothing_happened(here, before, listener, answers)
    told = {sql: str(answer) for sql, answer in answers.items() if "error(" not in sql}
    for secret in (str(scores), str(scores.parent), str(Path.home()) + "/", str(PROJECT), CANARY):
        assert [sql for sql, answer in told.items() if secret in answer] == []
    assert honest(ask)


def test_what_takes_too_much_is_ended(ask, here, listener):
    before = state(here)
    answers = all_of(ask, lines(BOMBS))
    check_nothing_happened(here, before, listener, answers)
    for sql, answer in answers.items():
        assert isinstance(answer, QueryError) or len(answer) < 2 * 2**20, sql
    assert honest(ask)


def test_what_is_too_deep_is_ended(ask):
    for answer in all_of(ask, [*nested(5000), *nested(60_001)]).values():
        assert isinstance(answer, (QueryError, bytes))
    assert honest(ask)


def test_nothing_is_left_running_but_those_that_wait(box, ask):
    all_of(ask, lines(BOMBS)[:4])
    assert honest(ask)
    deadline = time.monotonic() + 10
    while len(busy := at_work(box)) > 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert busy == []
    assert len(psutil.Process(box._forker.pid).children(recursive=True)) == LIMITS.at_once


def at_work(box):
    """The processes for questions that compute something within a moment, or are more than may be."""
    children = psutil.Process(box._forker.pid).children(recursive=True)
    busy = []
    for child in children:
        with suppress(psutil.NoSuchProcess):
            busy += [child] if child.cpu_percent(0.1) > 0 else []
    return busy + children[LIMITS.at_once :]


def test_an_answer_is_cut_at_rows_and_at_bytes(box, ask, scores):
    views = {"scores": View((str(scores),), None, schema.SCORES)}
    by_rows = box.ask(Question("select * from range(5000)", "arrow", LIMITS, {}, views))
    by_bytes = box.ask(Question("select repeat('x', 10000) as t from range(900)", "json", LIMITS, {}, views))
    assert (by_rows.rows, by_rows.cut) == (1000, "rows")
    assert by_bytes.cut == "bytes"
    assert 50 < by_bytes.rows < 105
    assert json.loads(by_bytes.body)["truncated"]
    assert "a single row is longer" in str(ask("select repeat('x', 3000000)"))


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("selec 1", 'syntax error at or near "selec"'),
        ("select * from nope", "Table with name nope does not exist"),
        ("select 1; select 2", "one question at a time, found 2 statements"),
        ("", "one question at a time, found 0 statements"),
        ("drop view scores", "only questions are answered here (SELECT, WITH, DESCRIBE, EXPLAIN), found DROP"),
        ("select count(*) from range(1000000000000)", "took longer than 2 s"),
        ("select list(range) from range(1000000000)", "needs more than 512 MB of memory"),
        ("select $x", "x"),
    ],
)
def test_a_mistake_is_told(ask, sql, said):
    assert said in str(ask(sql))


def test_parameters_are_values_and_nothing_else(ask):
    hostile = "r1' or 1 = 1; copy (select 1) to '/tmp/x' --"
    assert json.loads(ask("select count(*) as n from scores where run_id = $run", run=hostile))["rows"] == [{"n": 0}]
    assert json.loads(ask("select $a as a, $b as b, $c as c", a=1, b=None, c="x"))["rows"] == [
        {"a": 1, "b": None, "c": "x"}
    ]


def test_questions_beyond_the_limit_wait_and_then_are_turned_away(scores):
    limits = Limits(seconds=3, at_once=1, waiting=1, patience=1)
    sandbox = Sandbox(limits)
    slow = Question("select count(*) from range(1000000000000)", "json", limits)
    quick = Question("select 1", "json", limits)
    sandbox.ask(quick)
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(sandbox.ask, slow)
        time.sleep(0.3)
        second = threads.submit(sandbox.ask, quick)
        time.sleep(0.3)
        with pytest.raises(BusyError, match="too many questions are waiting"):
            sandbox.ask(quick)
        with pytest.raises(BusyError, match="none ended within 1 s"):
            second.result()
        with pytest.raises(QueryError, match="longer than 3 s"):
            first.result()
    assert sandbox.ask(quick).rows == 1
    sandbox.close()


def test_the_maker_of_processes_is_made_anew_when_it_dies(scores):
    sandbox = Sandbox(Limits(at_once=1))
    question = Question("select 1 as n", "csv", sandbox.limits)
    sandbox.ask(question)
    os.kill(sandbox._forker.pid, signal.SIGKILL)
    time.sleep(0.2)  # the process that waited ready dies with it
    assert sandbox.ask(question).body == b'"n"\n1\n'
    sandbox.close()


ALONE = """
import os, time
from actionflow.serving.sandbox import Sandbox
from actionflow.serving.answering import Question
box = Sandbox()
box.ask(Question("select 1", "json", box.limits))
print(box._forker.pid, flush=True)
time.sleep(60)
"""


def test_a_server_that_is_killed_takes_all_its_processes_along():
    server = subprocess.Popen([sys.executable, "-c", ALONE], stdout=subprocess.PIPE, text=True, cwd=PROJECT)
    forker = psutil.Process(int(server.stdout.readline()))
    family = [forker, *forker.children(recursive=True)]
    server.kill()
    server.communicate()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []


PRISON = """
import ctypes, os, socket, subprocess, sys, threading
from actionflow.serving.confining import confine
from actionflow.serving.limits import Limits
parent, libc = os.getppid(), ctypes.CDLL(None, use_errno=True)
confine(Limits(megabytes=200))
tries = {
    "open": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "create": lambda: os.open(sys.argv[1] + "/new", os.O_CREAT | os.O_WRONLY),
    "remove": lambda: os.unlink(sys.argv[1] + "/kept"),
    "rename": lambda: os.rename(sys.argv[1] + "/kept", sys.argv[1] + "/gone"),
    "truncate": lambda: os.truncate(sys.argv[1] + "/kept", 0),
    "list": lambda: os.listdir("/"),
    "stat": lambda: os.stat("/etc/passwd"),
    "chmod": lambda: os.chmod(sys.argv[1] + "/kept", 0),
    "socket": lambda: socket.socket(),
    "unix socket": lambda: socket.socketpair(),
    "fork": lambda: os.fork(),
    "spawn": lambda: subprocess.run(["/bin/true"]),
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "signal": lambda: os.kill(parent, 0),
    "trace": lambda: libc.ptrace(16, parent, 0, 0) == 0 or 1 / 0,
    "raise limits": lambda: __import__("resource").setrlimit(0, (1000, 1000)),
    "memory": lambda: bytearray(500_000_000),
}
for name, attempt in tries.items():
    try:
        attempt()
        print(name, "WORKED")
    except (OSError, MemoryError, ZeroDivisionError, ValueError):
        pass
thread = threading.Thread(target=lambda: print("threads work"))
thread.start()
thread.join()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the filter of system calls is Linux's own")
def test_code_that_gets_through_can_do_nothing_but_compute(tmp_path):
    (tmp_path / "kept").write_text("kept")
    done = subprocess.run(
        [sys.executable, "-c", PRISON, str(tmp_path)], capture_output=True, text=True, cwd=PROJECT, timeout=60
    )
    assert (done.stdout, done.stderr) == ("threads work\n", "")
    assert state(tmp_path).keys() == {"kept"}
    assert (tmp_path / "kept").read_text() == "kept"
