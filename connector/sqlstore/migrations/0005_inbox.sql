-- Events that providers sent. The body is sealed, and gone once the event is
-- done or stale; the names stay, so that a redelivery is known.
CREATE TABLE drawbridge_inbox (
	tenant     {text} NOT NULL,
	source     {text} NOT NULL,
	id         {text} NOT NULL,
	digest     {text} NOT NULL,
	event_key  {text} NOT NULL,
	connection {text} NOT NULL,
	scheme     {text} NOT NULL,
	type       {text} NOT NULL,
	object     {text} NOT NULL,
	version    {int}  NOT NULL,
	deleted    {int}  NOT NULL,
	restored   {int}  NOT NULL,
	signed_at  {int}  NOT NULL,
	received   {int}  NOT NULL,
	body       {bytes},
	state      {text} NOT NULL,
	attempts   {int}  NOT NULL,
	due        {int}  NOT NULL,
	claim      {int}  NOT NULL,
	code       {text} NOT NULL,
	settled_at {int}  NOT NULL,
	PRIMARY KEY (tenant, source, id)
) {table};

-- One event per digest and per key, as per id.
CREATE UNIQUE INDEX drawbridge_inbox_digest ON drawbridge_inbox (tenant, source, digest) WHERE digest <> '';
CREATE UNIQUE INDEX drawbridge_inbox_key ON drawbridge_inbox (tenant, source, event_key) WHERE event_key <> '';

-- One held event per object.
CREATE UNIQUE INDEX drawbridge_inbox_held ON drawbridge_inbox (tenant, source, object) WHERE state = 'held' AND object <> '';

-- What is to be done, and what comes first of an object.
CREATE INDEX drawbridge_inbox_due ON drawbridge_inbox (due) WHERE state IN ('waiting', 'held');
CREATE INDEX drawbridge_inbox_order ON drawbridge_inbox (tenant, source, object, version, received, id) WHERE object <> '' AND state IN ('waiting', 'held');

CREATE INDEX drawbridge_inbox_received ON drawbridge_inbox (received);
CREATE INDEX drawbridge_inbox_connection ON drawbridge_inbox (tenant, connection) WHERE connection <> '';

-- What was handled of an object.
CREATE TABLE drawbridge_inbox_objects (
	tenant  {text} NOT NULL,
	source  {text} NOT NULL,
	object  {text} NOT NULL,
	version {int}  NOT NULL,
	deleted {int}  NOT NULL,
	handled {int}  NOT NULL,
	PRIMARY KEY (tenant, source, object)
) {clustered};
