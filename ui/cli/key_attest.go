package cli

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm/attest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
)

type attestationDoc struct {
	Source    string            `json:"source"` // a key's URI, or files
	Verified  bool              `json:"verified"`
	Statement *attest.Statement `json:"statement,omitempty"`
	Error     *errorDoc         `json:"error,omitempty"`
	PEM       string            `json:"pem,omitempty"`
}

func attestationDocOf(source string, at token.Attestation) attestationDoc {
	d := attestationDoc{Source: source, Verified: at.Err == nil, Error: errorDocOf(at.Err)}
	if at.Statement.Algorithm != "" || at.Err == nil {
		d.Statement = &at.Statement
	}
	if len(at.Attestation.Statement) > 0 {
		d.PEM = string(attest.EncodePEM(at.Attestation))
	}
	return d
}

// attestationWords shows one attestation. If it is alone, the reason for a refusal follows as the
// command's error.
func attestationWords(w *words, source string, at token.Attestation, alone bool) {
	w.facts(append([]present.Fact{{Name: "Source", Value: source}}, present.Attestation(at)...))
	if v := present.Verdict(at); at.Err == nil || !alone {
		w.line("%s", marked(v.Words, v.Level))
	}
}

const rootUsage = "PEM `file` with root certificates to trust instead of Yubico's"

func (a *app) readRoots(file string) ([]*x509.Certificate, error) {
	if file == "" {
		return nil, nil
	}
	b, err := a.readAll(file)
	if err != nil {
		return nil, err
	}
	var roots []*x509.Certificate
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("--root: %s: %w", file, err)
		}
		roots = append(roots, cert)
	}
	if len(roots) == 0 {
		return nil, ui.Usagef("--root: there is no PEM certificate in %s", file)
	}
	return roots, nil
}

func errNotVerified(err error) error {
	hint := ""
	if errors.Is(err, attest.ErrUnknownIssuer) {
		hint = "--root names the root certificates of makers other than Yubico"
	}
	return hinting.With(fmt.Errorf("not verified: %w", err), hint)
}

func (a *app) keyAttest() *cobra.Command {
	var o *format
	var key, root, to string
	c := a.command(&cobra.Command{
		Use:   "attest",
		Short: "Have a token attest a key, and verify the attestation",
		Long: `Has the token attest a key, and verifies the attestation: it must be signed by the
token's attestation key, lead to Yubico's published roots (or --root), and be for the
key in the slot. With --to or -o pem, writes the attestation and the certificate of the
device as PEM, for "kubehsm attestation verify" elsewhere.

Only a key that was generated on the token can be attested.`,
		Example: `kubehsm key attest --key 'piv:serial=12345678;slot=9a'
kubehsm key attest --key 'piv:serial=12345678;slot=9a' --to attestation.pem
kubehsm key attest --key 'piv:serial=12345678;slot=9a' -o json`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		u, err := parseKey(key)
		if err != nil {
			return err
		}
		roots, err := a.readRoots(root)
		if err != nil {
			return err
		}
		keys, err := a.keys()
		if err != nil {
			return err
		}
		at, err := keys.Attest(c.Context(), u, roots)
		if err != nil {
			return err
		}
		d := attestationDocOf(u.String(), at)
		if to != "" {
			if err := writeNew(to, []byte(d.PEM)); err != nil {
				return err
			}
		}
		if o.value == "pem" {
			w := a.out()
			w.block(d.PEM)
			err = w.flush()
		} else {
			err = a.emit(o, d, func(w *words) { attestationWords(w, d.Source, at, true) })
		}
		if err == nil && at.Err != nil {
			err = errNotVerified(at.Err)
		}
		return err
	})
	keyFlag(c, &key)
	c.Flags().StringVar(&root, "root", "", rootUsage)
	c.Flags().StringVar(&to, "to", "", "new `file` for the attestation, as PEM")
	o = output(c, "pem")
	return c
}

func writeNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return hinting.With(ui.Usagef("%s exists already", path), "choose another name")
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}
