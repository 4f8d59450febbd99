package cli

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/present"
)

type problemDoc struct {
	Source string `json:"source"`
	errorDoc
}

func problemDocs(problems []hsm.Problem) []problemDoc {
	var docs []problemDoc
	for _, p := range problems {
		docs = append(docs, problemDoc{p.Source, *errorDocOf(p.Err)})
	}
	return docs
}

type certificateDoc struct {
	User           string        `json:"user"`
	Groups         []string      `json:"groups,omitempty"`
	Issuer         string        `json:"issuer"`
	Serial         string        `json:"serial"`
	NotBefore      time.Time     `json:"notBefore"`
	NotAfter       time.Time     `json:"notAfter"`
	Algorithm      hsm.Algorithm `json:"algorithm"`
	Fingerprint    string        `json:"fingerprint"`    // SHA-256 of the certificate
	KeyFingerprint string        `json:"keyFingerprint"` // SHA-256 of the public key
	PEM            string        `json:"pem,omitempty"`
}

func certificateDocOf(c *x509.Certificate, chain ...*x509.Certificate) certificateDoc {
	sum := sha256.Sum256(c.Raw)
	d := certificateDoc{
		User: c.Subject.CommonName, Groups: c.Subject.Organization, Issuer: c.Issuer.String(),
		Serial: c.SerialNumber.Text(16), NotBefore: c.NotBefore, NotAfter: c.NotAfter,
		Algorithm: hsm.AlgorithmOf(c.PublicKey), Fingerprint: hex.EncodeToString(sum[:]),
	}
	if f, err := hsm.Fingerprint(c.PublicKey); err == nil { // a key of a kind we do not know has none
		d.KeyFingerprint = f
	}
	for _, each := range append([]*x509.Certificate{c}, chain...) {
		d.PEM += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: each.Raw}))
	}
	return d
}

type keyDoc struct {
	URI         hsm.URI       `json:"uri"`
	Token       hsm.URI       `json:"token"`
	ID          string        `json:"id"`
	Label       string        `json:"label,omitempty"`
	Algorithm   hsm.Algorithm `json:"algorithm"`
	Fingerprint string        `json:"fingerprint"`
	// Words say it over the phone, see [csr.FingerprintWords].
	Words       []string        `json:"words,omitempty"`
	Origin      hsm.Origin      `json:"origin,omitempty"`
	PINPolicy   hsm.PINPolicy   `json:"pinPolicy"`
	TouchPolicy hsm.TouchPolicy `json:"touchPolicy"`
	Extractable bool            `json:"extractable"`
	Certificate *certificateDoc `json:"certificate,omitempty"`
	Problem     string          `json:"problem,omitempty"`
	Half        hsm.Half        `json:"half,omitempty"` // set if a part of the key is missing
}

func keyDocOf(s hsm.Slot) (keyDoc, error) {
	d := keyDoc{
		URI: s.URI, Token: s.URI.TokenOnly(), ID: s.ID, Label: s.Label, Problem: s.Problem, Half: s.Half,
	}
	if s.Certificate != nil {
		c := certificateDocOf(s.Certificate)
		c.PEM = ""
		d.Certificate = &c
	}
	if s.Key == nil {
		return d, nil
	}
	d.Algorithm, d.Origin, d.Extractable = s.Key.Algorithm, s.Key.Origin, s.Key.Extractable
	d.PINPolicy, d.TouchPolicy = s.Key.PIN, s.Key.Touch
	if s.Key.Public == nil {
		return d, nil // unknown algorithm; Problem says so
	}
	var err error
	if d.Fingerprint, err = hsm.Fingerprint(s.Key.Public); err == nil {
		d.Words, err = csr.FingerprintWords(d.Fingerprint)
	}
	return d, err
}

func (w *words) problems(problems []hsm.Problem, found bool) {
	for _, p := range present.Problems(problems, found) {
		w.line("note: %s: %s", p.Name, p.Value)
		if p.Note != "" {
			w.line("hint: %s", p.Note)
		}
	}
}

func parseKey(uri string) (hsm.URI, error) {
	u, err := hsm.ParseURI(uri)
	if err != nil {
		return u, err
	}
	return u, namesKey(u)
}

func namesKey(u hsm.URI) error {
	if u.Slot == "" && u.Object == "" && len(u.ID) == 0 {
		return hint.With(&ui.UsageError{Err: errors.New("--key: the URI names a token, not a key on it")},
			"`kubehsm key list` shows the keys' URIs")
	}
	return nil
}
