package webhook

import (
	"crypto/sha256"
	"crypto/subtle"
	"hash"
	"time"
)

// GitHub returns a Verifier for GitHub, github.com and Enterprise: HMAC-SHA256
// in X-Hub-Signature-256 (docs.github.com, "Validating webhook deliveries"). The
// older X-Hub-Signature (SHA-1) is not looked at. Neither the delivery's id nor
// the event's name is signed, which is why the digest of the body is a name too.
func GitHub(secrets []string, opts *Options) (*Verifier, error) {
	return NewHMAC(HMAC{Name: "github", Headers: []string{"X-Hub-Signature-256"}, Prefix: "sha256=", ID: "X-Github-Delivery", Type: "X-Github-Event"}, secrets, opts)
}

// Gitea returns a Verifier for Gitea and Forgejo: HMAC-SHA256 in
// X-Gitea-Signature (docs.gitea.com, "Webhooks").
func Gitea(secrets []string, opts *Options) (*Verifier, error) {
	return NewHMAC(HMAC{Name: "gitea", Headers: []string{"X-Gitea-Signature"}, ID: "X-Gitea-Delivery", Type: "X-Gitea-Event"}, secrets, opts)
}

// Shopify returns a Verifier for Shopify: HMAC-SHA256 in X-Shopify-Hmac-Sha256,
// base64, with the app's client secret (shopify.dev, "Deliver webhooks through
// HTTPS").
func Shopify(secrets []string, opts *Options) (*Verifier, error) {
	return NewHMAC(HMAC{Name: "shopify", Headers: []string{"X-Shopify-Hmac-Sha256"}, Base64: true, ID: "X-Shopify-Webhook-Id", Type: "X-Shopify-Topic"}, secrets, opts)
}

// AtlassianProduct says which product's headers name a delivery.
type AtlassianProduct uint8

const (
	Jira      AtlassianProduct = iota // and Confluence
	Bitbucket                         // Cloud
)

// Atlassian returns a Verifier for Jira, Confluence and Bitbucket Cloud:
// HMAC-SHA256 in X-Hub-Signature with the prefix "sha256=", unlike GitHub's header
// of that name (developer.atlassian.com, "Webhooks"; Bitbucket, "Secure
// webhooks").
func Atlassian(product AtlassianProduct, secrets []string, opts *Options) (*Verifier, error) {
	h := HMAC{Name: "atlassian", Headers: []string{"X-Hub-Signature"}, Prefix: "sha256=", ID: "X-Atlassian-Webhook-Identifier", TypeAt: "/webhookEvent"}
	if product == Bitbucket {
		h.ID, h.Type, h.TypeAt = "X-Request-Uuid", "X-Event-Key", ""
	}
	return NewHMAC(h, secrets, opts)
}

// Slack returns a Verifier for Slack: HMAC-SHA256 over "v0:time:body" in
// X-Slack-Signature, keyed with the signing secret as it is written
// (docs.slack.dev, "Verifying requests from Slack"). The handshake
// url_verification is signed like everything else, and is a Delivery with a
// Challenge.
func Slack(secrets []string, opts *Options) (*Verifier, error) {
	v, err := NewHMAC(HMAC{Name: "slack", Headers: []string{"X-Slack-Signature"}, Prefix: "v0=", Signed: "v0:{timestamp}:{body}", Timestamp: "X-Slack-Request-Timestamp",
		IDAt: "/event_id", TypeAt: "/type"}, secrets, opts)
	if err != nil {
		return nil, err
	}
	check := v.check
	v.check = func(r *Request, at time.Time) (Delivery, error) {
		d, err := check(r, at)
		if err != nil {
			return d, err
		}
		switch d.Type {
		case "url_verification":
			d.Challenge = textAt(r.Body, "/challenge")
		case "event_callback": // an envelope: what happened is inside
			d.Type = textAt(r.Body, "/event/type")
		}
		return d, nil
	}
	return v, nil
}

// Square returns a Verifier for Square: HMAC-SHA256 over address and body in
// X-Square-Hmacsha256-Signature, base64 (developer.squareup.com, "Validate
// webhook notifications"). publicURL is the notification URL as it is registered
// at Square, without a query.
func Square(publicURL string, secrets []string, opts *Options) (*Verifier, error) {
	return NewHMAC(HMAC{Name: "square", Headers: []string{"X-Square-Hmacsha256-Signature"}, Base64: true, Signed: "{url}{body}", URL: publicURL, IDAt: "/event_id", TypeAt: "/type"}, secrets, opts)
}

// HubSpot returns a Verifier for version 3 of HubSpot's signatures: HMAC-SHA256
// over method, address, body and time in X-Hubspot-Signature-V3
// (developers.hubspot.com, "Validating requests"). publicURL is the address as
// it is registered at HubSpot, without a query. A batch is one delivery, named
// by the events in it, because the body counts the attempts.
func HubSpot(publicURL string, secrets []string, opts *Options) (*Verifier, error) {
	v, err := NewHMAC(HMAC{Name: "hubspot", Headers: []string{"X-Hubspot-Signature-V3"}, Base64: true, Signed: "{method}{url}{body}{timestamp}", URL: publicURL,
		Timestamp: "X-Hubspot-Request-Timestamp", Unit: Milliseconds}, secrets, opts)
	return namedByHubSpot(v), err
}

// HubSpotLegacy returns a Verifier for versions 1 and 2 of HubSpot's signatures,
// a plain SHA-256 over secret and request: no MAC, no time, and what was
// captured can be sent again for ever. Use HubSpot wherever HubSpot sends both.
func HubSpotLegacy(publicURL string, secrets []string, opts *Options) (*Verifier, error) {
	plain := func(key []byte) hash.Hash {
		h := sha256.New()
		h.Write(key)
		return h
	}
	var byVersion [2]*Verifier
	for i, signed := range []string{"{body}", "{method}{url}{body}"} {
		h := HMAC{Name: "hubspot-legacy", Headers: []string{"X-Hubspot-Signature"}, Signed: signed}
		if i == 1 {
			h.URL = publicURL
		}
		v, err := h.verifier(secrets, opts, plain)
		if err != nil {
			return nil, err
		}
		byVersion[i] = v
	}
	return namedByHubSpot(&Verifier{name: "hubspot-legacy", check: func(r *Request, at time.Time) (Delivery, error) {
		version, err := one(r.Header, "X-Hubspot-Signature-Version")
		if err != nil {
			return Delivery{}, err
		}
		switch version {
		case "v1":
			return byVersion[0].check(r, at)
		case "v2":
			return byVersion[1].check(r, at)
		}
		return Delivery{}, refuse("X-Hubspot-Signature-Version is neither v1 nor v2", ErrHeader)
	}}), nil
}

// GitLabToken returns a Verifier for GitLab's X-Gitlab-Token, which is the
// secret itself: it proves who sent the delivery to whoever trusts the way here
// (TLS), and nothing about the bytes (docs.gitlab.com, "Webhooks"). GitLab's
// newer signing tokens are Standard Webhooks: use that where they are set.
func GitLabToken(secrets []string, opts *Options) (*Verifier, error) {
	o, err1 := settings(opts)
	ks, err2 := keys(secrets, nil)
	if err1 != nil || err2 != nil {
		return nil, first(err1, err2)
	}
	return &Verifier{name: "gitlab-token", check: func(r *Request, _ time.Time) (Delivery, error) {
		token, err := one(r.Header, "X-Gitlab-Token")
		if err != nil {
			return Delivery{}, err
		}
		fits := 0
		for _, k := range ks {
			fits |= subtle.ConstantTimeCompare(k, []byte(token))
		}
		if fits == 0 {
			return Delivery{}, refuse("X-Gitlab-Token is none of the secrets", ErrSignature)
		}
		var d Delivery
		if d.ID, err = atMostOne(r.Header, "Idempotency-Key"); err != nil {
			return d, err
		}
		if d.ID != "" && !o.RepeatedBodies {
			d.Digest = digest(r.Body)
		}
		d.Type, err = atMostOne(r.Header, "X-Gitlab-Event")
		return d, err
	}}, nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
