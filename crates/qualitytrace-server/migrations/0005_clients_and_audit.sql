-- Who asked for a run: a token or an address, empty for the server itself. The queue is shared out by it.
ALTER TABLE runs ADD COLUMN client TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_waiting_by_client ON runs (client) WHERE state = 'CREATED';

-- Who changed what, and when. The oldest entries go first.
CREATE TABLE audit (
    at      BIGINT NOT NULL,
    entry   TEXT   NOT NULL, -- tells entries of the same moment apart
    who     TEXT   NOT NULL, -- the scope of a token and the beginning of its hash; empty without tokens
    address TEXT   NOT NULL, -- of the client; empty for the server itself
    action  TEXT   NOT NULL,
    kind    TEXT   NOT NULL,
    id      TEXT   NOT NULL,
    request TEXT   NOT NULL, -- the id of the request
    PRIMARY KEY (at, entry)
);
