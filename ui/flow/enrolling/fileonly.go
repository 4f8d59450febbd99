package enrolling

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
)

// ErrFileOnly: a file-only token has ended.
var ErrFileOnly = errors.New("the file-only token has ended")

// IsFileOnly tells whether text has the form of a service account's token, a signed JWT
// (RFC 7519). `kubehsm roster line --file-only` makes some that can only file requests.
func IsFileOnly(text []byte) bool {
	_, ok := claims(text)
	return ok
}

// claims are the second of a JWT's three parts.
func claims(text []byte) (payload []byte, ok bool) {
	parts := bytes.Split(text, []byte("."))
	if len(parts) != 3 || !bytes.HasPrefix(text, []byte("eyJ")) { // base64 of {"
		return nil, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(string(parts[1]))
	return payload, err == nil
}

// SetToken takes text for the token that files the request: a bootstrap token, or a file-only
// token, for the cluster that a discovery file names. The text is not kept. The errors are
// [ErrFileOnly] and those of [bootstraptoken.Parse].
func (o *Join) SetToken(text []byte) (err error) {
	payload, ok := claims(text)
	if !ok {
		o.Token, err = bootstraptoken.Parse(text)
		return err
	}
	var said struct {
		End float64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &said); err != nil {
		return fmt.Errorf("the file-only token cannot be read: %w", bootstraptoken.ErrMalformed)
	}
	if end := time.Unix(int64(said.End), 0); said.End > 0 && time.Now().After(end) {
		return hint.With(fmt.Errorf("%w, at %s", ErrFileOnly, end.UTC().Format(time.RFC3339)),
			"ask the help desk for another: `kubehsm roster line --file-only` makes it")
	}
	o.FileOnly = hsm.NewSecret(bytes.Clone(text))
	return nil
}

// Bearer is the token that files the request, as an Authorization header has it; "" if there is none.
func (o *Join) Bearer() string {
	if o.FileOnly.Len() > 0 {
		return string(o.FileOnly.Bytes())
	}
	return o.Token.Reveal()
}

// Wipe overwrites the tokens.
func (o *Join) Wipe() {
	o.Token.Wipe()
	o.DiscoveryToken.Wipe()
	o.FileOnly.Zero()
}
