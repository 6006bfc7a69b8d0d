-- Questions to people, and their answers. An approval is used by the operation
-- that names it: drawbridge_operations.approval. The rendering is sealed.
CREATE TABLE drawbridge_approvals (
	tenant    {text} NOT NULL,
	id        {text} NOT NULL,
	rev       {int}  NOT NULL,
	digest    {text} NOT NULL,
	capability {text} NOT NULL,
	version   {text} NOT NULL,
	targets   {text} NOT NULL,
	targets_digest {text} NOT NULL,
	versions  {text} NOT NULL,
	issuer    {text} NOT NULL,
	subject   {text} NOT NULL,
	connection {text} NOT NULL,
	revision  {text} NOT NULL,
	operation {text} NOT NULL,
	request   {text} NOT NULL,
	runtime_key {text} NOT NULL,
	rendering {bytes},
	verdict   {text} NOT NULL,
	asked     {int}  NOT NULL,
	approver_tenant {text} NOT NULL,
	approver_issuer {text} NOT NULL,
	approver_subject {text} NOT NULL,
	approved  {int}  NOT NULL,
	expires   {int}  NOT NULL,
	PRIMARY KEY (tenant, id)
) {table};

CREATE INDEX drawbridge_approvals_pending ON drawbridge_approvals (tenant, asked, id)
	WHERE approver_tenant = '' AND approver_issuer = '' AND approver_subject = '';
