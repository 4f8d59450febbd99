package enroll

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

// storeCertificate checks the chain once more against the key in the slot,
// keeps it in the state folder and writes the leaf to the token.
func (r *attempt) storeCertificate(ctx context.Context) (outcome, error) {
	cert, err := csr.ParseCertificate(r.record.Certificate)
	if err != nil {
		return outcome{}, err
	}
	if err := cert.Check(r.public, true, time.Time{}); err != nil {
		return outcome{}, err
	}
	if err := r.refuseUntrusted(ctx, cert); err != nil {
		return outcome{}, err
	}
	if err := r.save(ctx, cert); err != nil {
		return outcome{}, err
	}
	if err := r.openToken(ctx); err != nil {
		return outcome{}, err
	}
	apart, err := keepsApart(ctx, r.token, r.info, r.record.Options)
	if err != nil {
		return outcome{}, err
	}
	if r.record.Options.Adopt {
		return outcome{message: "kept in the state folder; " + apart}, nil
	}
	slot, err := r.token.Slot(ctx, r.record.Request.Key)
	if err != nil {
		return outcome{}, err
	}
	switch {
	case slot.Certificate != nil && bytes.Equal(slot.Certificate.Raw, cert.Leaf.Raw):
		return outcome{message: "on the token already", reused: true}, nil
	case slot.Certificate != nil && slot.CertificateMatches() && slot.Certificate.NotAfter.After(cert.Leaf.NotAfter):
		return outcome{message: "kept in the state folder; the slot keeps the longer-lived one of another cluster"}, nil
	}
	if apart != "" {
		return outcome{message: "kept in the state folder; " + apart}, nil
	}
	err = r.withPIN(ctx, "store the certificate", func(p hsm.Prompter) error {
		return r.token.StoreCertificate(ctx, r.record.Request.Key, cert.Leaf, p)
	})
	if errors.Is(err, hsm.ErrUnsupported) {
		r.note("this token stores no certificates; it is kept in the state folder")
		return outcome{message: "kept in the state folder"}, nil
	}
	if errors.Is(err, hsm.ErrFull) {
		r.note("%v; the certificate is kept in the state folder", err)
		return outcome{message: "kept in the state folder"}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	back, err := r.token.Slot(ctx, r.record.Request.Key)
	if err != nil {
		return outcome{}, fmt.Errorf("read the certificate back: %w", err)
	}
	if back.Certificate == nil || !bytes.Equal(back.Certificate.Raw, cert.Leaf.Raw) {
		return outcome{}, hint.With(errors.New("the token did not keep the certificate as it was written"),
			"the token may be full; `kubehsm key list` shows what is on it")
	}
	return outcome{message: "written to the token and read back"}, nil
}

// refuseUntrusted is the error for a certificate that is certain not to sign in,
// before it takes the place of another one; unless that was accepted.
func (r *attempt) refuseUntrusted(ctx context.Context, cert *csr.Certificate) error {
	accepted := cluster.AcceptedBy(ctx, r.record.Cluster)
	if accepted == nil {
		return nil
	}
	accepted.Roots = r.roots
	err := accepted.Check(cert)
	switch {
	case err == nil:
		return nil
	case r.record.Options.AcceptForecast:
		r.note("%v", err)
		return nil
	}
	return r.rejected(ctx, err)
}

// save puts the tuple that the agent may serve into its store, signed by the key.
func (r *attempt) save(ctx context.Context, cert *csr.Certificate) error {
	if err := r.signRecord(ctx); err != nil { // nothing was signed for a certificate that was there, or it has changed since
		return err
	}
	en, err := recorded(r.env, r.record)
	if err != nil {
		return err
	}
	// The certificate first: an enrollment in use never is without one, not even
	// one that gets another key.
	store := r.env.Enrollments()
	if err := store.SaveCertificate(en, append([]*x509.Certificate{cert.Leaf}, cert.Chain...)); err != nil {
		return err
	}
	return store.Save(en)
}
