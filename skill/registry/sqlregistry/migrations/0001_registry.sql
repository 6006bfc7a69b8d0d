-- Every revision of every record, with the event that led to it. Rows are only
-- added. Both texts are JSON, as the directory store writes them.
CREATE TABLE drawbridge_skill_records (
	tenant  {text} NOT NULL,
	name    {text} NOT NULL,
	version {text} NOT NULL,
	rev     {int}  NOT NULL,
	record  {text} NOT NULL,
	event   {text} NOT NULL,
	PRIMARY KEY (tenant, name, version, rev)
) {table};

-- Packages by digest, as archives. Rows are only added.
CREATE TABLE drawbridge_skill_packages (
	tenant  {text}  NOT NULL,
	digest  {text}  NOT NULL,
	archive {bytes} NOT NULL,
	PRIMARY KEY (tenant, digest)
) {table};

-- A row for each run that has a pin or was finished. "finished" is empty or a
-- time (RFC 3339). Whoever pins or finishes locks the run's row.
CREATE TABLE drawbridge_skill_runs (
	tenant   {text} NOT NULL,
	run      {text} NOT NULL,
	finished {text} NOT NULL,
	PRIMARY KEY (tenant, run)
) {clustered};

CREATE TABLE drawbridge_skill_pins (
	tenant {text} NOT NULL,
	run    {text} NOT NULL,
	name   {text} NOT NULL,
	pin    {text} NOT NULL,
	PRIMARY KEY (tenant, run, name)
) {clustered};

CREATE INDEX drawbridge_skill_pins_name ON drawbridge_skill_pins (tenant, name, run);
