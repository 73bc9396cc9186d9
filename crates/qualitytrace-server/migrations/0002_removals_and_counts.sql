-- Whoever removes something takes this row first, so that removals happen one after another.
INSERT INTO totals (name, value) VALUES ('removals', 0);

-- Old runs of suites are removed like those of tests.
CREATE INDEX suite_runs_by_creation ON suite_runs (created);

-- How many runs there are, so that no list has to count them.
ALTER TABLE run_numbers ADD COLUMN stored BIGINT NOT NULL DEFAULT 0;
UPDATE run_numbers SET stored = (SELECT COUNT(*) FROM runs WHERE runs.test_id = run_numbers.test_id);
ALTER TABLE suite_run_numbers ADD COLUMN stored BIGINT NOT NULL DEFAULT 0;
UPDATE suite_run_numbers
    SET stored = (SELECT COUNT(*) FROM suite_runs WHERE suite_runs.suite_id = suite_run_numbers.suite_id);
