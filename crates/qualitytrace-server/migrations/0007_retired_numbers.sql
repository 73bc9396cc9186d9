-- The last run number of a deleted test or suite. What is created under its id again counts on from there, because runs
-- of the deleted one may still be in progress, and a run is named by id and number.
CREATE TABLE retired_numbers (
    kind    TEXT   NOT NULL,
    id      TEXT   NOT NULL,
    number  BIGINT NOT NULL,
    deleted BIGINT NOT NULL, -- when; the rows of long ago are removed
    PRIMARY KEY (kind, id)
);
CREATE INDEX retired_numbers_by_deletion ON retired_numbers (deleted);
