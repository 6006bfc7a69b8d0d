package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// Adyen returns a Verifier for Adyen's standard notifications, which hold one
// signature for each item: HMAC-SHA256 over eight of its fields, keyed with the
// hexadecimal key (docs.adyen.com, "Verify HMAC signatures"). Every item has to
// be signed; if one is not, the whole is refused. What is not among the eight
// (pspReference, originalReference, merchantAccountCode, merchantReference,
// amount.value, amount.currency, eventCode, success) is not signed, and whoever
// can change the delivery on its way can change it.
func Adyen(secrets []string, opts *Options) (*Verifier, error) {
	_, err1 := settings(opts)
	ks, err2 := keys(secrets, hex.DecodeString)
	if err := first(err1, err2); err != nil {
		return nil, err
	}
	return &Verifier{name: "adyen", ack: "[accepted]", check: func(r *Request, _ time.Time) (d Delivery, err error) {
		items, err := adyenItems(r.Body)
		if err != nil {
			return d, err
		}
		var all []string
		for _, item := range items {
			sig, err := base64.StdEncoding.Strict().DecodeString(item.signature)
			if err != nil || len(sig) != sha256.Size {
				return d, refuse("an item has no signature", ErrHeader)
			}
			if !anyMAC(ks, [][]byte{sig}, []byte(item.signed)) {
				return d, refuse("the signature of an item does not fit", ErrSignature)
			}
			all = append(all, item.signed)
		}
		d.ID, d.Type = strictjson.Digest(all...), items[0].kind
		return d, nil
	}}, nil
}

// AdyenPlatform returns a Verifier for Adyen's newer webhooks (balance platform,
// management): HMAC-SHA256 over the body in the header Hmacsignature, base64,
// keyed with the hexadecimal key.
func AdyenPlatform(secrets []string, opts *Options) (*Verifier, error) {
	return NewHMAC(HMAC{Name: "adyen-platform", Headers: []string{"Hmacsignature"}, Base64: true, HexKey: true, TypeAt: "/type"}, secrets, opts)
}

type adyenItem struct{ signed, signature, kind string }

// adyenFields are in the order in which they are signed. One that is missing is
// signed as empty.
var adyenFields = []string{"/pspReference", "/originalReference", "/merchantAccountCode", "/merchantReference", "/amount/value", "/amount/currency", "/eventCode", "/success"}

// adyenEscape keeps a field's border where it is.
var adyenEscape = strings.NewReplacer(`\`, `\\`, ":", `\:`)

func adyenItems(body []byte) ([]adyenItem, error) {
	v, err := strictjson.Parse(body)
	if err != nil {
		return nil, refuse("the body is not JSON that everybody reads alike", ErrHeader)
	}
	list, _ := strictjson.Lookup(v, "/notificationItems")
	items, _ := list.([]any)
	if len(items) == 0 || len(items) > maxItems {
		return nil, refuse("there are no notificationItems, or too many", ErrHeader)
	}
	var out []adyenItem
	for _, it := range items {
		item, _ := strictjson.Lookup(it, "/NotificationRequestItem")
		var fields []string
		for _, at := range adyenFields {
			f, ok := adyenField(item, at)
			if !ok {
				return nil, refuse("a field of an item is neither text nor a number", ErrHeader)
			}
			fields = append(fields, adyenEscape.Replace(f))
		}
		sig, _ := strictjson.Lookup(item, "/additionalData/hmacSignature")
		text, _ := sig.(string)
		out = append(out, adyenItem{strings.Join(fields, ":"), text, nameAt(item, "/eventCode")})
	}
	return out, nil
}

const maxItems = 100

func adyenField(item any, at string) (string, bool) {
	v, there := strictjson.Lookup(item, at)
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	}
	return "", !there || v == nil
}

// SendGrid returns a Verifier for Twilio SendGrid's event webhook: ECDSA on
// P-256 over time and body, in X-Twilio-Email-Event-Webhook-Signature. Keys are
// public ones, base64 of their DER form, as the settings page shows them
// (docs.sendgrid.com, "Event Webhook security features"). A batch is one
// delivery; the events in it have ids of their own, sg_event_id.
func SendGrid(publicKeys []string, opts *Options) (*Verifier, error) {
	o, err := settings(opts)
	if err != nil {
		return nil, err
	}
	var ks []*ecdsa.PublicKey
	_, err = keys(publicKeys, func(text string) ([]byte, error) {
		der, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil {
			return nil, err
		}
		k, err := x509.ParsePKIXPublicKey(der)
		if err != nil {
			return nil, err
		}
		p, ok := k.(*ecdsa.PublicKey)
		if !ok || p.Curve != elliptic.P256() {
			return nil, errForm
		}
		ks = append(ks, p)
		return der, nil
	})
	if err != nil {
		return nil, err
	}
	return &Verifier{name: "sendgrid", check: func(r *Request, at time.Time) (d Delivery, err error) {
		const prefix = "X-Twilio-Email-Event-Webhook-"
		line, err1 := one(r.Header, prefix+"Signature")
		stamp, err2 := one(r.Header, prefix+"Timestamp")
		if err := first(err1, err2); err != nil {
			return d, err
		}
		sig, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil {
			return d, refuse(prefix+"Signature is not in the form of the scheme", ErrHeader)
		}
		h := sha256.New()
		h.Write([]byte(stamp))
		h.Write(r.Body)
		sum := h.Sum(nil)
		if !slices.ContainsFunc(ks, func(k *ecdsa.PublicKey) bool { return ecdsa.VerifyASN1(k, sum, sig) }) {
			return d, refuse("check the key, and that nothing before this handler changes the body, its last line end included", ErrSignature)
		}
		if d.SignedAt, err = instant(stamp, Seconds); err == nil {
			err = within(d.SignedAt, at, o.Tolerance)
		}
		return d, err
	}}, nil
}

// textAt returns what a signed body has at a pointer: at most 256 bytes that are
// one line, or nothing.
func textAt(body []byte, pointer string) string {
	v, err := strictjson.Parse(body)
	if err != nil {
		return ""
	}
	return nameAt(v, pointer)
}

// namedByHubSpot names deliveries by the events in their batch, sorted, where
// all have ids.
func namedByHubSpot(v *Verifier) *Verifier {
	if v == nil {
		return nil
	}
	check := v.check
	v.check = func(r *Request, at time.Time) (Delivery, error) {
		d, err := check(r, at)
		if err == nil {
			d.ID, d.Type = hubSpotBatch(r.Body)
		}
		return d, err
	}
	return v
}

func hubSpotBatch(body []byte) (id, kind string) {
	v, err := strictjson.Parse(body)
	list, _ := v.([]any)
	if err != nil || len(list) == 0 {
		return "", ""
	}
	var ids []string
	for _, e := range list {
		n := nameAt(e, "/eventId")
		if n == "" {
			return "", ""
		}
		ids = append(ids, strictjson.Digest(n, nameAt(e, "/subscriptionId"), nameAt(e, "/objectId"), nameAt(e, "/occurredAt"), nameAt(e, "/subscriptionType"), nameAt(e, "/propertyName")))
	}
	slices.Sort(ids)
	return strictjson.Digest(slices.Compact(ids)...), nameAt(list[0], "/subscriptionType")
}
