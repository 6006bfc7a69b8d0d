-- The last number that was given to a name of a run, so that none is ever used
-- again.
CREATE TABLE drawbridge_artifact_numbers (
	tenant {text} NOT NULL,
	run    {text} NOT NULL,
	name   {text} NOT NULL,
	last   {int}  NOT NULL,
	PRIMARY KEY (tenant, run, name)
) {clustered};

CREATE TABLE drawbridge_artifacts (
	tenant     {text} NOT NULL,
	run        {text} NOT NULL,
	name       {text} NOT NULL,
	n          {int}  NOT NULL,
	blob_id    {text} NOT NULL,
	connection {text} NOT NULL,
	expires    {int}  NOT NULL,
	size       {int}  NOT NULL,
	digest     {text} NOT NULL,
	meta       {text} NOT NULL,
	PRIMARY KEY (tenant, run, name, n)
) {table};

CREATE UNIQUE INDEX drawbridge_artifacts_blob ON drawbridge_artifacts (blob_id);
CREATE INDEX drawbridge_artifacts_connection ON drawbridge_artifacts (tenant, connection);
CREATE INDEX drawbridge_artifacts_expires ON drawbridge_artifacts (expires);

-- The sealed bytes, in order. Chunks come before their artifact: those of one
-- that was never finished have none, and are swept a day later.
CREATE TABLE drawbridge_artifact_chunks (
	blob_id {text}  NOT NULL,
	n       {int}   NOT NULL,
	stored  {int}   NOT NULL,
	bytes   {bytes} NOT NULL,
	PRIMARY KEY (blob_id, n)
) {table};

CREATE INDEX drawbridge_artifact_chunks_stored ON drawbridge_artifact_chunks (stored) WHERE n = 0;
