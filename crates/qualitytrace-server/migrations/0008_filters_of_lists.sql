-- The outcome of the latest run of a test that has ended: lists of tests are filtered by it.
ALTER TABLE run_numbers ADD COLUMN ended BIGINT NOT NULL DEFAULT 0; -- the number of that run; 0 for none
ALTER TABLE run_numbers ADD COLUMN outcome TEXT NOT NULL DEFAULT ''; -- empty for none
UPDATE run_numbers SET ended = COALESCE(
    (SELECT MAX(r.number) FROM runs r WHERE r.test_id = run_numbers.test_id AND r.outcome <> ''), 0);
UPDATE run_numbers SET outcome = COALESCE(
    (SELECT r.outcome FROM runs r WHERE r.test_id = run_numbers.test_id AND r.number = run_numbers.ended), '');
CREATE INDEX run_numbers_by_outcome ON run_numbers (outcome, test_id);

-- What else lists are filtered by. The program fills in what is stored already.
CREATE TABLE facets (
    kind   TEXT NOT NULL,
    id     TEXT NOT NULL,
    facet  TEXT NOT NULL, -- trigger or tag
    value  TEXT NOT NULL,
    PRIMARY KEY (kind, facet, value, id),
    FOREIGN KEY (kind, id) REFERENCES resources (kind, id) ON DELETE CASCADE
);
CREATE INDEX facets_by_resource ON facets (kind, id);
