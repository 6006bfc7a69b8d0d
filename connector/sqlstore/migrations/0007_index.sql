-- What was taken in of a provider's objects. Title and text are sealed; words are
-- digests of what they can be found by, which whoever can guess a word can check.
CREATE TABLE drawbridge_index_feeds (
	tenant     {text} NOT NULL,
	connection {text} NOT NULL,
	feed       {text} NOT NULL,
	rev        {int}  NOT NULL,
	watermark  {int}  NOT NULL,
	window_end {int}  NOT NULL,
	cursor_at  {text} NOT NULL,
	walk       {int}  NOT NULL,
	walk_at    {text} NOT NULL,
	walked     {int}  NOT NULL,
	PRIMARY KEY (tenant, connection, feed)
) {table};

CREATE TABLE drawbridge_index_objects (
	tenant     {text} NOT NULL,
	connection {text} NOT NULL,
	feed       {text} NOT NULL,
	type       {text} NOT NULL,
	id         {text} NOT NULL,
	state      {text} NOT NULL,
	version    {int}  NOT NULL,
	access_version {int} NOT NULL,
	applied    {int}  NOT NULL,
	met        {int}  NOT NULL,
	title      {bytes},
	body       {bytes},
	PRIMARY KEY (tenant, connection, feed, type, id)
) {table};

CREATE TABLE drawbridge_index_readers (
	tenant     {text} NOT NULL,
	connection {text} NOT NULL,
	feed       {text} NOT NULL,
	type       {text} NOT NULL,
	id         {text} NOT NULL,
	reader     {text} NOT NULL,
	PRIMARY KEY (tenant, connection, feed, type, id, reader)
) {clustered};

CREATE INDEX drawbridge_index_readers_who ON drawbridge_index_readers (tenant, connection, feed, reader);

CREATE TABLE drawbridge_index_words (
	tenant     {text} NOT NULL,
	connection {text} NOT NULL,
	feed       {text} NOT NULL,
	word       {text} NOT NULL,
	type       {text} NOT NULL,
	id         {text} NOT NULL,
	PRIMARY KEY (tenant, connection, feed, word, type, id)
) {clustered};

CREATE INDEX drawbridge_index_words_of ON drawbridge_index_words (tenant, connection, feed, type, id);
