-- Connections. "record" is the whole as JSON, with the tokens sealed in it; the
-- other columns repeat what is looked for and what must be unique. Times are
-- microseconds since 1970.
CREATE TABLE drawbridge_connections (
	tenant      {text} NOT NULL,
	id          {text} NOT NULL,
	version     {int}  NOT NULL,
	issuer      {text} NOT NULL,
	subject     {text} NOT NULL,
	provider    {text} NOT NULL,
	org         {text} NOT NULL,
	account     {text} NOT NULL,
	state       {text} NOT NULL,
	reason      {text} NOT NULL,
	updated     {int}  NOT NULL,
	retry_at    {int}  NOT NULL,
	lease_until {int}  NOT NULL,
	record      {text} NOT NULL,
	PRIMARY KEY (tenant, id)
) {table};

-- An owner has an account once. Those that are over do not count.
CREATE UNIQUE INDEX drawbridge_connections_account ON drawbridge_connections
	(tenant, issuer, subject, provider, org, account) WHERE state <> 'disconnected';

CREATE INDEX drawbridge_connections_state ON drawbridge_connections (state, tenant, id);

CREATE TABLE drawbridge_connection_transactions (
	tenant      {text} NOT NULL,
	id          {text} NOT NULL,
	version     {int}  NOT NULL,
	expires     {int}  NOT NULL,
	transaction_json {text} NOT NULL,
	PRIMARY KEY (tenant, id)
) {table};

CREATE INDEX drawbridge_connection_transactions_expires ON drawbridge_connection_transactions (expires);

CREATE TABLE drawbridge_connection_holds (
	tenant {text} NOT NULL,
	id     {text} NOT NULL,
	hold   {text} NOT NULL,
	PRIMARY KEY (tenant, id)
) {clustered};
