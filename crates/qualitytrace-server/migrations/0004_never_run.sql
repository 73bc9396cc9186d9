-- What was never run sorts behind every time at which something was run.
UPDATE resources SET last_run = 9223372036854775807 WHERE last_run = 0;
