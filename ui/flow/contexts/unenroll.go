package contexts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/session"
)

// Unenrollment is what goes when an enrollment, or one of its keys, is removed.
type Unenrollment struct {
	// Enrollment is the one that goes, or whose key goes.
	Enrollment enrollment.Enrollment
	// Kubeconfig is the change of the kubeconfig files; it may be empty.
	Kubeconfig *Change
	// SameKey are other enrollments with the same key, which stay.
	SameKey []string
	// Spares are the spares that go too, as their context does.
	Spares []enrollment.Enrollment
	// Stay are the keys that the context keeps, where one key goes. Where that is the one of the enrollment itself,
	// the first of them takes its place.
	Stay []enrollment.Enrollment
	// Lost is what a help desk needs to know of the key. Where a removal that was cut short is finished, it names no key.
	Lost LostKey

	cut bool // a removal of the key was cut short, and the record of the spare that took its place is left
}

// LostKey is what a help desk needs to know of a key whose token was lost.
type LostKey struct {
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	Server string   `json:"server"`
	Token  string   `json:"token"`
	// TokenSerial is the token's name on a roster, "" if it cannot be on one.
	TokenSerial string `json:"tokenSerial,omitempty"`
	// Fingerprint is that of the public key, Words are its words.
	Fingerprint string `json:"fingerprint"`
	Words       string `json:"words,omitempty"`
	// Serial is the certificate's serial number in hex, NotAfter when it ends; both are zero if there is none here.
	Serial   string    `json:"serial,omitempty"`
	NotAfter time.Time `json:"notAfter,omitzero"`
}

// Unenrollment works out what removing the enrollment called name changes, or, if key is not nil, removing the
// one of its keys that key takes: it is shown the enrollment and its spares. The name of a spare removes the spare.
// Nothing is changed yet.
func (k Contexts) Unenrollment(ctx context.Context, name string, key func(enrollment.Enrollment) bool) (Unenrollment,
	error) {
	store := k.env.Enrollments()
	en, err := store.Load(name)
	if err != nil {
		return Unenrollment{}, err
	}
	cut := false
	family, err := store.Family(en)
	if err != nil {
		return Unenrollment{}, err
	}
	if key != nil {
		i := slices.IndexFunc(family, key)
		if i < 0 {
			i = slices.IndexFunc(family, func(e enrollment.Enrollment) bool {
				return e.SpareOf != "" && e.KeyHash == family[0].KeyHash
			})
			cut = i >= 0
		}
		if i < 0 {
			return Unenrollment{}, noneOn(name, family)
		}
		en = family[i]
	}
	u := Unenrollment{Enrollment: en, Lost: lostKey(store, en), cut: cut}
	if cut { // the key that went is not on record any more, and the other one is not lost
		u.Lost = LostKey{User: en.User, Groups: en.Groups, Server: en.Cluster.Server}
	}
	others := slices.DeleteFunc(slices.Clone(family), func(e enrollment.Enrollment) bool { return e.Name == en.Name })
	switch {
	case en.SpareOf == "" && key == nil:
		u.Spares = others
	default:
		u.Stay = others
	}
	record := en.Name // the record that goes
	if u.succeeds() {
		record = u.Stay[0].Name
	}
	if u.Kubeconfig, err = k.Remove(ctx, record); err != nil {
		return u, err
	}
	all, err := store.List()
	if err != nil {
		return u, err
	}
	for _, other := range all {
		if other.KeyHash == en.KeyHash && other.Name != en.Name {
			u.SameKey = append(u.SameKey, other.Name)
		}
	}
	return u, nil
}

// succeeds tells whether a spare takes the place of the key of the enrollment itself.
func (u Unenrollment) succeeds() bool { return u.Enrollment.SpareOf == "" && len(u.Stay) > 0 }

// On takes the key on a token, see [Contexts.Unenrollment].
func On(token hsm.URI) func(enrollment.Enrollment) bool {
	return func(e enrollment.Enrollment) bool { return enrolling.SameToken(token.TokenOnly(), e.Key) }
}

// noneOn is the error for a token on which the enrollment called name has no key.
func noneOn(name string, family []enrollment.Enrollment) error {
	var tokens []string
	for _, e := range family {
		tokens = append(tokens, e.Key.TokenOnly().Identity().String())
	}
	return hint.With(fmt.Errorf("%s has no key on that token: %w", name, hsm.ErrNoKey),
		"it has keys on "+strings.Join(tokens, ", "))
}

// lostKey is what there is to know of e's key. What the certificate says is left out where it cannot be read.
func lostKey(store enrollment.Store, e enrollment.Enrollment) LostKey {
	l := LostKey{User: e.User, Groups: e.Groups, Server: e.Cluster.Server, Token: e.Key.TokenOnly().Identity().String(),
		Fingerprint: e.KeyHash}
	if _, err := strconv.ParseUint(e.Key.Serial, 10, 64); err == nil { // an attestation tells a number
		l.TokenSerial = e.Key.Serial
	}
	if words, err := csr.FingerprintWords(e.KeyHash); err == nil {
		l.Words = strings.Join(words, " ")
	}
	if chain, err := store.Certificate(e); err == nil {
		l.Serial, l.NotAfter = chain[0].SerialNumber.Text(16), chain[0].NotAfter
	}
	return l
}

// Unenroll takes the kubeconfig entry out, then forgets the enrollment, its
// certificates and its record, and ends the agent, so that nothing signed in
// goes on, and the agent does not remember the consent policy. The key and its certificate stay on the
// token, and the certificate stays valid until it ends. Where other keys of the context stay, so does its
// entry; where the one that has it goes, a spare's key signs its record, for which p is asked.
// It can be repeated after a failure.
func (k Contexts) Unenroll(ctx context.Context, u Unenrollment, p hsm.Prompter) error {
	for _, e := range append([]enrollment.Enrollment{u.Enrollment}, append(u.Spares, u.Stay...)...) {
		release, err := k.env.Lock(ctx, e.Name)
		if err != nil {
			return err
		}
		defer release()
	}
	agent, gone := session.Agent{Env: k.env}, append(slices.Clone(u.Spares), u.Enrollment)
	if u.succeeds() {
		next, err := agent.Sign(ctx, u.Enrollment.By(u.Stay[0]), p)
		if err != nil {
			return err
		}
		gone = u.Stay[:1]
		if err := u.Kubeconfig.Apply(ctx); err != nil {
			return err
		}
		if err := succeed(k.env, u.Enrollment, next, u.Stay[0]); err != nil {
			return err
		}
	} else if err := u.Kubeconfig.Apply(ctx); err != nil {
		return err
	}
	for _, e := range gone {
		if err := forget(k.env, e); err != nil {
			return err
		}
	}
	if err := agent.StopAgent(ctx, func(string) {}); err != nil && !errors.Is(err, client.ErrNotRunning) {
		return hint.With(err, "the enrollment is removed; `kubehsm agent stop` closes connections that are signed in")
	}
	return nil
}

// forget removes the records of en.
func forget(e *env.Env, en enrollment.Enrollment) error {
	if err := os.Remove(enrolling.NewStore(e).Path(en.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := e.Enrollments().Delete(en.Name); err != nil && !errors.Is(err, enrollment.ErrUnknown) {
		return err
	}
	return nil
}

// succeed puts next, with the key of a spare, in the place of en, whose key goes. The spare's own records are the
// caller's to forget.
func succeed(e *env.Env, en, next, spare enrollment.Enrollment) error {
	store := e.Enrollments()
	chain, err := store.Certificate(spare)
	if err != nil {
		return err
	}
	if err := store.SaveCertificate(next, chain); err != nil {
		return err
	}
	if err := inherit(e, en, spare); err != nil {
		return err
	}
	if err := store.Save(next); err != nil { // without this record, all of the above is repeated
		return err
	}
	return store.DeleteCertificate(en)
}

// inherit has e go on with what is on record of the enrollment and of the renewals of spare.
func inherit(e *env.Env, en, spare enrollment.Enrollment) error {
	renewals := e.Enrollments().Renewals()
	known, err := renewals.Load(spare)
	if err == nil {
		err = renewals.Save(en.Name, known)
	}
	if err != nil {
		return err
	}
	progress := enrolling.NewStore(e)
	j, err := progress.Load(spare.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	j.Options.Name, j.Options.SpareOf = en.Name, ""
	return progress.Save(j)
}
