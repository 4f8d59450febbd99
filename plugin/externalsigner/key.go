package externalsigner

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

type key struct {
	token    hsm.Token
	uri      hsm.URI
	slot     hsm.Slot // not looked up for a signature by URI
	prompter hsm.Prompter
}

// find opens the token and finds the key. The caller closes the token.
func (o Options) find(ctx context.Context, drivers hsm.Drivers, p place, r Request) (k *key, err error) {
	c := r.Config
	k = &key{prompter: o.Prompter}
	if c.PIN != nil {
		o.warn("the kubeconfig holds a PIN: whoever reads that file can use the token; remove %s from it", wire.KeyPIN)
		k.prompter = fromFile(c.PIN, ask.From(o.Prompter))
	}
	if k.token, err = p.open(ctx, drivers); err != nil {
		return nil, err
	}
	if r.Operation == wire.Sign && p.slot == nil {
		k.uri = p.uri // looking through the token twice would cost more than the signature
		return k, nil
	}
	if k.slot, err = k.lookup(ctx, p.uri); err != nil {
		if p.slot != nil && errors.Is(err, hsm.ErrNoKey) {
			err = hint.With(err, k.byURI(ctx))
		}
		return nil, errors.Join(err, k.token.Close())
	}
	k.uri = k.slot.URI
	if p.slot != nil {
		o.warn("slot numbers move when tokens come and go; instead of slotId and objectId give uri: %s", k.slot.URI)
	}
	if k.slot.Certificate != nil && k.slot.Key != nil && !k.slot.CertificateMatches() {
		err := hint.With(fmt.Errorf("%s: the certificate on the token is for another key: %w", k.slot.URI,
			hsm.ErrKeyMismatch),
			"`yubico-piv-tool -a import-certificate` or `pkcs11-tool --write-object` puts the right one there")
		return nil, errors.Join(err, k.token.Close())
	}
	return k, nil
}

// lookup asks for the PIN only if the token hides the key without it.
func (k *key) lookup(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	slot, err := k.token.Slot(ctx, u)
	hidden := errors.Is(err, hsm.ErrNoKey) || err == nil && slot.Key == nil && slot.Certificate == nil
	if !hidden || k.prompter == nil || k.token.Unlocked() {
		return slot, err
	}
	if err := k.token.Unlock(ctx, k.prompter); err != nil {
		return hsm.Slot{}, err
	}
	return k.token.Slot(ctx, u)
}

const maxNamed = 4

// byURI is a hint with the URIs of the token's visible keys, "" if there are none: an objectId is
// one byte, but most ids are longer.
func (k *key) byURI(ctx context.Context) string {
	all, err := k.token.Slots(ctx, nil)
	if err != nil { // The caller reports the missing key without a hint.
		return ""
	}
	var uris []string
	for _, s := range all {
		if s.Key != nil {
			uris = append(uris, "'"+s.URI.String()+"'")
		}
	}
	if len(uris) == 0 {
		return ""
	}
	more := ""
	if n := len(uris) - maxNamed; n > 0 {
		uris, more = uris[:maxNamed], fmt.Sprintf(" and %d more (`kubehsm key list`)", n)
	}
	return "an objectId is a single byte and cannot name most keys; use the key's uri instead: " +
		strings.Join(uris, ", ") + more
}

func (k *key) certificate() (*x509.Certificate, error) {
	switch {
	case k.slot.Certificate == nil:
		return nil, hint.With(fmt.Errorf("%s: %w", k.slot.URI, hsm.ErrNoCertificate),
			"`yubico-piv-tool -a import-certificate` or `pkcs11-tool --write-object` puts one there")
	case k.slot.Key == nil:
		return nil, fmt.Errorf("%s: there is a certificate, but its key is missing: %w", k.slot.URI, hsm.ErrNoKey)
	}
	return k.slot.Certificate, nil
}

func (k *key) sign(ctx context.Context, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	signer, err := k.token.Signer(ctx, k.uri, nil, k.prompter)
	if err != nil {
		return nil, err
	}
	if err := wire.CheckKey(signer.Public(), opts); err != nil {
		return nil, err
	}
	return signer.Sign(nil, digest, opts)
}
