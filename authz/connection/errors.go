package connection

import (
	"errors"

	"github.com/drawbridge-sdk/drawbridge/authz/connection/internal/token"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func errOrigin() error {
	return toolresult.NewError(toolresult.EgressDenied, "the credential is for another origin")
}

func errOver() error {
	return toolresult.NewError(toolresult.ConnectionRequired, "the credential of this call is over")
}

func errNoAccount() *toolresult.Error {
	return toolresult.NewError(toolresult.ConnectionRequired, "there is no usable account for this call: connect one")
}

func errHeld() error {
	return toolresult.NewError(toolresult.PermissionDenied, "stopped after an incident: an operator must release it")
}

func errStore(err error) error {
	return toolresult.WrapError(toolresult.ProviderUnavailable, "the connections cannot be read or written now", err)
}

func errBusy() error {
	return toolresult.NewError(toolresult.ProviderUnavailable, "the account's credential is being renewed")
}

// errSealed classifies what a Keyring says. An unknown key is the operator's
// mistake, and the connection is as good as before.
func errSealed(err error) error {
	if errors.Is(err, credential.ErrKeyUnknown) {
		return toolresult.WrapError(toolresult.Internal, "the account's credential is sealed under a key that this process does not have", err)
	}
	return toolresult.WrapError(toolresult.Internal, "the account's credential was altered where it is kept, or was not sealed for it", err)
}

// errReauthorize says why the user must consent again.
func errReauthorize(r Reason) *toolresult.Error {
	switch r {
	case ReasonUnknown:
		return toolresult.NewError(toolresult.ConnectionRequired, "the answer to a renewal was lost, and the provider no longer takes the old credential: connect the account again")
	case ReasonNoRefresh:
		return toolresult.NewError(toolresult.ConnectionRequired, "the account's credential is over, and the provider gave nothing to renew it with: connect the account again")
	case ReasonRejected:
		return toolresult.NewError(toolresult.ConnectionRequired, "the provider keeps refusing to renew the account's credential: connect the account again")
	}
	return toolresult.NewError(toolresult.ConnectionRequired, "the provider no longer accepts the account's credential: connect the account again")
}

// errIssuer turns a failed request to an issuer into what a caller is told.
func errIssuer(f *token.Failure) *toolresult.Error {
	switch f.Kind {
	case token.Misconfigured:
		return toolresult.WrapError(toolresult.ProviderError, "the provider refuses this host's registration: an operator must correct it", f)
	case token.Dead:
		return errReauthorize(ReasonRevoked)
	}
	return toolresult.WrapError(toolresult.ProviderUnavailable, "the account's credential cannot be renewed now", f).WithRetryAfter(f.RetryAfter)
}
