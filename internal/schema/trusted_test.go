package schema

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// K5: names that ask a model for what only the runtime may say, in their
// spellings, and names that only look so.
func TestTrustedNames_K5(t *testing.T) {
	for _, name := range []string{
		"tenant", "tenant_id", "tenantId", "TenantID", "TENANT-ID", "TENANT_ID", "tenantid", "x-tenant-id", "target_tenant", "scope.tenant_id", "tenants", "current_tenant",
		"user", "user_id", "userId", "USERID", "username", "user_name", "user_ids", "current_user", "acting_user_id", "user_email", "provider_user_id",
		"principal", "principal_id", "subject_id", "sub", "caller", "caller_id", "impersonate", "impersonate_user", "on_behalf_of", "onBehalfOf", "act_as",
		"connection", "connection_id", "connectionRef", "connection_string", "account", "account_id", "accountNumber", "provider_account_id",
		"credential", "credentials", "credential_id", "credential_handle", "token", "access_token", "accessToken", "page_token", "github_token", "token_value", "id_token", "bearer", "Authorization", "session_token", "jwt",
		"password", "user_password", "newPassword", "passwd", "passphrase", "secret", "client_secret", "clientsecret", "secret_value", "secretKey",
		"api_key", "apiKey", "APIKey", "api-key", "apikey", "X-API-Key", "private_key", "access_key_id", "openai_api_key", "cookie",
		"approval", "approval_id", "approvalId", "approval_token", "approver",
		"operation_id", "operationId", "operation_key", "idempotency_key", "Idempotency-Key", "idempotencyKey", "idempotency_token",
		"profile", "profile_id", "endpoint_profile", "profileName",
		"base_url", "baseUrl", "baseURL", "BASE_URI", "endpoint", "endpoint_url", "api_endpoint", "provider_url", "api_url", "api_base", "api_base_url", "server_url",
	} {
		_, ok := trusted(name)
		require.True(t, ok, name)
	}
	for _, name := range []string{
		"user_agent", "token_count", "max_tokens", "tokens", "tokenize", "assignee", "description", "account_type", "account_balance", "source_account_id", "title", "query", "url", "host", "hostname", "server_name",
		"subject", "operation", "operations", "base", "provider", "provider_name", "api_version", "key", "id", "name", "project_id", "service", "surname", "keyword", "secretary", "subscription", "substring", "user_count", "users",
		"connection_count", "connected", "profile_picture", "endpoints_ready", "password_policy", "approval_status", "approved", "email", "login", "number", "window_seconds", "page_size", "cursor", "", "_", "tenantry_kind", "broken", "accounting", "subtitle", "webhook_url", "callback_url", "idempotent",
	} {
		n, ok := trusted(name)
		require.False(t, ok, "%s is taken for %s", name, n.text)
	}
}

func TestTrustedIsFoundEverywhere_K5(t *testing.T) {
	leaf := `{"type":"object","additionalProperties":false,"properties":{"tenant_id":{"type":"string"}}}`
	for _, row := range []struct{ why, schema string }{
		{"at the root", leaf},
		{"nested", `{"type":"object","additionalProperties":false,"properties":{"scope":` + leaf + `}}`},
		{"in a list", `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"array","items":` + leaf + `}}}`},
		{"in a tuple", `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"array","items":false,"prefixItems":[` + leaf + `]}}}`},
		{"in the values of a map", `{"type":"object","maxProperties":3,"additionalProperties":` + leaf + `}`},
		{"in an alternative", `{"type":"object","additionalProperties":false,"properties":{"a":{"anyOf":[{"type":"string"},` + leaf + `]}}}`},
		{"behind a reference", `{"$defs":{"s":` + leaf + `},"type":"object","additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/s"}}}`},
		{"in a condition", `{"type":"object","additionalProperties":false,"then":` + leaf + `}`},
		{"by a pattern", `{"type":"object","additionalProperties":false,"patternProperties":{"tenant_id":{}}}`},
	} {
		_, err := Parse(json.RawMessage(row.schema), true)
		require.ErrorContains(t, err, "asks a model for what only the runtime may say (tenant)", row.why)
		_, err = Parse(json.RawMessage(row.schema), false)
		require.NoError(t, err, "an answer may say it: "+row.why)
	}
}

func TestBusinessReason_K5(t *testing.T) {
	one := func(name, more string) error {
		_, err := Parse(json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"`+name+`":{"type":"string"`+more+`}}}`), true)
		return err
	}
	require.ErrorContains(t, one("account", ""), "say in \"x-drawbridge-business\" why it is business data")
	require.NoError(t, one("account", `,"x-drawbridge-business":"the customer whose invoices are listed"`))
	require.ErrorContains(t, one("account", `,"x-drawbridge-business":""`), "want the reason")
	require.ErrorContains(t, one("account", `,"x-drawbridge-business":true`), "want the reason")
	require.ErrorContains(t, one("api_key", `,"x-drawbridge-business":"we need it"`), "asks a model for a secret", "no reason helps for a secret")
	require.ErrorContains(t, one("title", `,"x-other":"y"`), "not a keyword")
}
