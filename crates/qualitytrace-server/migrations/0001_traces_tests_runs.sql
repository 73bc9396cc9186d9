-- Columns are TEXT, BIGINT and BYTEA only: the same text runs on SQLite and PostgreSQL.

-- What arrived: one row per trace and request, OTLP bytes as received.
CREATE TABLE chunks (
    trace_id BYTEA  NOT NULL,
    signal   BIGINT NOT NULL, -- 0 spans, 1 log records
    arrived  BIGINT NOT NULL, -- nanoseconds since the epoch, unique within a trace
    items    BIGINT NOT NULL,
    size     BIGINT NOT NULL, -- bytes of data
    data     BYTEA  NOT NULL
);
CREATE INDEX chunks_by_trace ON chunks (trace_id, signal, arrived);
CREATE INDEX chunks_by_arrival ON chunks (arrived);

CREATE TABLE totals (
    name  TEXT   NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO totals (name, value) VALUES ('retained_bytes', 0);

-- What users define: one row a resource, with what lists need. Ids are scoped: those of a tenant begin with its id.
CREATE TABLE resources (
    kind        TEXT   NOT NULL, -- Test, TestSuite, VariableSet, ...
    id          TEXT   NOT NULL,
    tenant      TEXT   NOT NULL, -- empty for none
    version     BIGINT NOT NULL, -- the latest
    created     BIGINT NOT NULL, -- when version 1 was stored
    name        TEXT   NOT NULL, -- in lower case, for searches
    description TEXT   NOT NULL, -- in lower case, for searches
    sort_name   BYTEA  NOT NULL, -- bytes sort the same in every database
    sort_kind   BYTEA  NOT NULL, -- the type of a demo
    last_run    BIGINT NOT NULL, -- when it was last run; 0 for never
    spec        TEXT   NOT NULL, -- the latest version as JSON
    PRIMARY KEY (kind, id)
);
CREATE INDEX resources_by_creation ON resources (kind, tenant, created, id);
CREATE INDEX resources_by_name ON resources (kind, tenant, sort_name, id);
CREATE INDEX resources_by_last_run ON resources (kind, tenant, last_run, id);

-- Every version of every resource, as the user wrote it.
CREATE TABLE definitions (
    kind    TEXT   NOT NULL,
    id      TEXT   NOT NULL,
    version BIGINT NOT NULL,
    format  TEXT   NOT NULL, -- yaml or json
    text    TEXT   NOT NULL,
    PRIMARY KEY (kind, id, version),
    FOREIGN KEY (kind, id) REFERENCES resources (kind, id) ON DELETE CASCADE
);

CREATE TABLE runs (
    kind         TEXT   NOT NULL DEFAULT 'Test',
    test_id      TEXT   NOT NULL,
    number       BIGINT NOT NULL,
    test_version BIGINT NOT NULL,
    trace_id     BYTEA  NOT NULL,
    state        TEXT   NOT NULL,
    created      BIGINT NOT NULL,
    variables    TEXT   NOT NULL, -- JSON object
    request      TEXT   NOT NULL, -- what was asked for beside the variables, as JSON
    passed       BIGINT NOT NULL DEFAULT 0, -- assertions that held
    failed       BIGINT NOT NULL DEFAULT 0, -- assertions that did not
    turn         BIGINT NOT NULL, -- the lowest of those that wait is next
    owner        TEXT   NOT NULL, -- the server that carries it out; empty while it waits for its turn
    triggered    BIGINT NOT NULL DEFAULT 0, -- 1 once the trigger may have been sent
    wish         TEXT   NOT NULL DEFAULT '', -- what the user wants of it: skip, stop, or nothing
    PRIMARY KEY (test_id, number),
    FOREIGN KEY (kind, test_id) REFERENCES resources (kind, id) ON DELETE CASCADE
);
CREATE INDEX runs_by_trace ON runs (trace_id);
CREATE INDEX runs_by_creation ON runs (created);
CREATE INDEX runs_by_state ON runs (state, turn);
CREATE INDEX runs_queued ON runs (test_id, turn) WHERE state = 'CREATED';

-- The servers that share this database. One whose beat stands still is gone.
CREATE TABLE servers (
    id      TEXT   NOT NULL PRIMARY KEY,
    beat    BIGINT NOT NULL,
    backlog BIGINT NOT NULL -- milliseconds by which its ingest is behind
);

-- The highest number that a run of a test ever had: numbers are not given twice.
CREATE TABLE run_numbers (
    kind    TEXT   NOT NULL DEFAULT 'Test',
    test_id TEXT   NOT NULL PRIMARY KEY,
    number  BIGINT NOT NULL,
    FOREIGN KEY (kind, test_id) REFERENCES resources (kind, id) ON DELETE CASCADE
);

-- A run is the list of its events.
CREATE TABLE run_events (
    test_id TEXT   NOT NULL,
    number  BIGINT NOT NULL,
    seq     BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    body    TEXT   NOT NULL, -- JSON
    PRIMARY KEY (test_id, number, seq),
    FOREIGN KEY (test_id, number) REFERENCES runs (test_id, number) ON DELETE CASCADE
);

-- What earlier runs of a test taught about the shape of its trace.
CREATE TABLE histories (
    kind    TEXT NOT NULL DEFAULT 'Test',
    test_id TEXT NOT NULL PRIMARY KEY,
    body    TEXT NOT NULL, -- JSON
    FOREIGN KEY (kind, test_id) REFERENCES resources (kind, id) ON DELETE CASCADE
);

-- Small documents of which there is one each, like the state of the wizard.
CREATE TABLE documents (
    name TEXT NOT NULL PRIMARY KEY,
    body TEXT NOT NULL -- JSON
);

-- Runs of a test that were asked for together: repetitions, and further tries of those that did not pass.
CREATE TABLE series (
    test_id TEXT   NOT NULL,
    first   BIGINT NOT NULL, -- the first of its runs
    owner   TEXT   NOT NULL, -- the server that starts its runs
    outcome TEXT   NOT NULL, -- empty while it is under way
    body    TEXT   NOT NULL, -- JSON
    PRIMARY KEY (test_id, first),
    FOREIGN KEY (test_id, first) REFERENCES runs (test_id, number) ON DELETE CASCADE
);
CREATE INDEX series_under_way ON series (owner) WHERE outcome = '';

CREATE TABLE suite_runs (
    kind          TEXT   NOT NULL DEFAULT 'TestSuite',
    suite_id      TEXT   NOT NULL,
    number        BIGINT NOT NULL,
    suite_version BIGINT NOT NULL,
    state         TEXT   NOT NULL,
    created       BIGINT NOT NULL,
    variables     TEXT   NOT NULL, -- JSON object
    request       TEXT   NOT NULL, -- what was asked for beside the variables, as JSON
    passed        BIGINT NOT NULL DEFAULT 0, -- assertions that held
    failed        BIGINT NOT NULL DEFAULT 0, -- assertions that did not
    owner         TEXT   NOT NULL, -- the server that starts its steps
    wish          TEXT   NOT NULL DEFAULT '', -- what the user wants of it: stop, or nothing
    PRIMARY KEY (suite_id, number),
    FOREIGN KEY (kind, suite_id) REFERENCES resources (kind, id) ON DELETE CASCADE
);
CREATE INDEX suite_runs_by_state ON suite_runs (state);

-- The highest number that a run of a suite ever had.
CREATE TABLE suite_run_numbers (
    kind     TEXT   NOT NULL DEFAULT 'TestSuite',
    suite_id TEXT   NOT NULL PRIMARY KEY,
    number   BIGINT NOT NULL,
    FOREIGN KEY (kind, suite_id) REFERENCES resources (kind, id) ON DELETE CASCADE
);

-- A run of a suite is the list of its events, too.
CREATE TABLE suite_run_events (
    suite_id TEXT   NOT NULL,
    number   BIGINT NOT NULL,
    seq      BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    body     TEXT   NOT NULL, -- JSON
    PRIMARY KEY (suite_id, number, seq),
    FOREIGN KEY (suite_id, number) REFERENCES suite_runs (suite_id, number) ON DELETE CASCADE
);

-- The runs of tests that a run of a suite started.
CREATE TABLE suite_run_steps (
    suite_id TEXT   NOT NULL,
    number   BIGINT NOT NULL,
    test_id  TEXT   NOT NULL,
    run      BIGINT NOT NULL,
    PRIMARY KEY (suite_id, number, test_id, run),
    FOREIGN KEY (suite_id, number) REFERENCES suite_runs (suite_id, number) ON DELETE CASCADE,
    FOREIGN KEY (test_id, run) REFERENCES runs (test_id, number) ON DELETE CASCADE
);
CREATE INDEX suite_run_steps_by_run ON suite_run_steps (test_id, run);
