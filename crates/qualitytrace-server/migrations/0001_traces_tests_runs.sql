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

-- Every version of every test, as the user wrote it.
CREATE TABLE tests (
    id         TEXT   NOT NULL,
    version    BIGINT NOT NULL,
    created    BIGINT NOT NULL, -- of version 1
    name       TEXT   NOT NULL,
    format     TEXT   NOT NULL, -- yaml or json
    definition TEXT   NOT NULL,
    PRIMARY KEY (id, version)
);

CREATE TABLE runs (
    test_id      TEXT   NOT NULL,
    number       BIGINT NOT NULL,
    test_version BIGINT NOT NULL,
    trace_id     BYTEA  NOT NULL,
    state        TEXT   NOT NULL,
    created      BIGINT NOT NULL,
    variables    TEXT   NOT NULL, -- JSON object
    PRIMARY KEY (test_id, number)
);
CREATE INDEX runs_by_trace ON runs (trace_id);
CREATE INDEX runs_by_state ON runs (state);

-- A run is the list of its events.
CREATE TABLE run_events (
    test_id TEXT   NOT NULL,
    number  BIGINT NOT NULL,
    seq     BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    body    TEXT   NOT NULL, -- JSON
    PRIMARY KEY (test_id, number, seq)
);

-- What earlier runs of a test taught about the shape of its trace.
CREATE TABLE histories (
    test_id TEXT NOT NULL PRIMARY KEY,
    body    TEXT NOT NULL -- JSON
);
