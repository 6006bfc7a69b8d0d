-- Times are nanoseconds since 1970 in UTC; the least 64-bit number is "no time".
-- A text that begins with a backslash is the base64 form of one that the
-- database could not hold. Digests, names and states are in clear; arguments
-- and output are sealed.
CREATE TABLE drawbridge_operations (
	tenant       {text} NOT NULL,
	id           {text} NOT NULL,
	rev          {int}  NOT NULL,
	state        {text} NOT NULL,
	resolution   {text} NOT NULL,
	runtime_key  {text} NOT NULL,
	provider_id  {text} NOT NULL,
	intent       {text} NOT NULL,
	approval     {text} NOT NULL,
	approval_ends {int} NOT NULL,
	digest       {text} NOT NULL,
	capability   {text} NOT NULL,
	version      {text} NOT NULL,
	targets      {text} NOT NULL,
	targets_digest {text} NOT NULL,
	versions     {text} NOT NULL,
	issuer       {text} NOT NULL,
	subject      {text} NOT NULL,
	connection   {text} NOT NULL,
	revision     {text} NOT NULL,
	request      {text} NOT NULL,
	arguments    {bytes},
	output       {bytes},
	request_id   {text} NOT NULL,
	code         {text} NOT NULL,
	sends        {int}  NOT NULL,
	outside      {int}  NOT NULL,
	prepared_at  {int}  NOT NULL,
	first_sent   {int}  NOT NULL,
	sent_at      {int}  NOT NULL,
	settled_at   {int}  NOT NULL,
	settled_by   {text} NOT NULL,
	holder       {text} NOT NULL,
	held_until   {int}  NOT NULL,
	PRIMARY KEY (tenant, id)
) {table};

-- One operation per approval.
CREATE UNIQUE INDEX drawbridge_operations_approval ON drawbridge_operations (tenant, approval)
	WHERE approval <> '';

-- One open operation per intent. A word that nobody knows is open.
CREATE UNIQUE INDEX drawbridge_operations_intent ON drawbridge_operations (tenant, intent)
	WHERE state NOT IN ('prepared', 'applied', 'not_applied', 'pending', 'resolved');

-- What somebody has to find out.
CREATE INDEX drawbridge_operations_unsettled ON drawbridge_operations (prepared_at, tenant, id)
	WHERE state NOT IN ('prepared', 'applied', 'not_applied', 'resolved');

-- What was known of an operation at each of its versions. Rows are only added,
-- each in the transaction that makes the version.
CREATE TABLE drawbridge_operation_history (
	tenant     {text} NOT NULL,
	id         {text} NOT NULL,
	rev        {int}  NOT NULL,
	at         {int}  NOT NULL,
	state      {text} NOT NULL,
	resolution {text} NOT NULL,
	code       {text} NOT NULL,
	actor      {text} NOT NULL,
	PRIMARY KEY (tenant, id, rev)
) {clustered};
