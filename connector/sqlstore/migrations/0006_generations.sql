-- Numbers that grow when what a cache holds has changed. A mark is a digest.
CREATE TABLE drawbridge_generations (
	mark   {text} NOT NULL,
	number {int}  NOT NULL,
	open   {int}  NOT NULL,
	PRIMARY KEY (mark)
) {clustered};
