package discovery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
)

// base64url is RFC 7515's.
var base64url = base64.RawURLEncoding

// header is the only JOSE header that counts, encoded. A token ID needs no
// escaping.
func header(id string) string {
	return base64url.EncodeToString([]byte(`{"alg":"HS256","kid":"` + id + `"}`))
}

// verifySignature checks a detached JWS (RFC 7515, appendix F) on content, made
// with token as k8s.io/cluster-bootstrap does. Anything else is [ErrSignature].
func verifySignature(signature string, content []byte, token bootstraptoken.Token) error {
	parts := strings.Split(signature, ".")
	if len(parts) != 3 || parts[1] != "" {
		return fmt.Errorf("%w: it does not have the form HEADER..SIGNATURE", ErrSignature)
	}
	if parts[0] != header(token.ID()) {
		return fmt.Errorf("%w: %s", ErrSignature, foreignHeader(parts[0], token.ID()))
	}
	mac := hmac.New(sha256.New, token.Key())
	// A hash takes every write.
	_, _ = mac.Write([]byte(parts[0] + "." + base64url.EncodeToString(content)))
	// Encoded, because decoding forgives line ends: one signature has one form.
	if !hmac.Equal([]byte(parts[2]), []byte(base64url.EncodeToString(mac.Sum(nil)))) {
		return hint.Withf(fmt.Errorf("%w: it was not made with this token", ErrSignature),
			"check the part of the token after the dot; if it is right, this is not your cluster")
	}
	return nil
}

// foreignHeader says what is wrong with an encoded header.
func foreignHeader(encoded, id string) string {
	var h struct{ Alg, Kid string }
	raw, err := base64url.DecodeString(encoded)
	if err == nil {
		err = json.Unmarshal(raw, &h)
	}
	switch {
	case err != nil:
		return "its header cannot be read"
	case h.Alg != "HS256":
		return fmt.Sprintf("its algorithm is %q, not HS256", h.Alg)
	case h.Kid != id:
		return fmt.Sprintf("it was made with the token %q, not %q", h.Kid, id)
	default:
		return "its header says more than algorithm and token"
	}
}
