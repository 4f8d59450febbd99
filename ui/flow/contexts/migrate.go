package contexts

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// Migration is a context whose credential is to move into a token.
type Migration struct {
	Context View
	// KeyFile is the private key's file, "" if it is in the kubeconfig itself.
	KeyFile string
	// Others are the further contexts that sign in with the same credential.
	Others []string
	// Subject is whom the credential stands for.
	Subject csr.Subject
}

// Migration looks at a context that holds its credential in files; "" is the
// current one.
func (k Contexts) Migration(ctx context.Context, kubeContext string) (Migration, error) {
	c, err := k.env.Rules().Get(ctx, kubeContext)
	if err != nil {
		return Migration{}, err
	}
	m := Migration{Context: viewOf(c), KeyFile: c.User.KeyFile}
	all, err := k.List(ctx)
	if err != nil {
		return m, err
	}
	for _, other := range all {
		if other.Name != c.Name && other.User == c.User.Name {
			m.Others = append(m.Others, other.Name)
		}
	}
	if c.User.Kind == kubeconfig.UserOurs || c.User.Kind == kubeconfig.UserExternalSigner {
		return m, hint.With(fmt.Errorf("context %q signs in with a token already", c.Name),
			"`kubehsm kubeconfig list` shows the others")
	}
	m.Subject, err = k.subject(ctx, c)
	return m, err
}

// Subject is whom a context signs in as: by its enrollment, by its client certificate, or
// by what its cluster says. "" is the current context.
func (k Contexts) Subject(ctx context.Context, kubeContext string) (csr.Subject, error) {
	c, err := k.env.Rules().Get(ctx, kubeContext)
	if err != nil {
		return csr.Subject{}, err
	}
	return k.subject(ctx, c)
}

func (k Contexts) subject(ctx context.Context, c kubeconfig.Context) (csr.Subject, error) {
	switch c.User.Kind {
	case kubeconfig.UserOurs:
		en, err := k.env.Enrollments().Load(c.User.Enrollment)
		return csr.Subject{User: en.User, Groups: en.Groups}, err
	case kubeconfig.UserKeyData, kubeconfig.UserKeyFile:
		return k.certificateSubject(ctx, c.Name)
	}
	client, err := cluster.Access{Env: k.env}.Client(ctx, c.Name)
	if err != nil {
		return csr.Subject{}, err
	}
	me, err := client.Rights().WhoAmI(ctx)
	everybody := func(g string) bool { return g == "system:authenticated" }
	return csr.Subject{User: me.User, Groups: slices.DeleteFunc(me.Groups, everybody)}, err
}

// certificateSubject reads whom a context's client certificate stands for.
func (k Contexts) certificateSubject(ctx context.Context, name string) (csr.Subject, error) {
	config, err := k.env.Rules().RESTConfig(ctx, name)
	if err != nil {
		return csr.Subject{}, err
	}
	defer clear(config.KeyData)
	data := config.CertData
	if len(data) == 0 {
		if data, err = kubeconfig.ReadFile(config.CertFile); err != nil {
			return csr.Subject{}, fmt.Errorf("the certificate of context %q: %w", name, err)
		}
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return csr.Subject{}, fmt.Errorf("the certificate of context %q: %w", name, errors.New("no PEM in it"))
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return csr.Subject{}, fmt.Errorf("the certificate of context %q: %w", name, err)
	}
	return csr.Subject{User: leaf.Subject.CommonName, Groups: leaf.Subject.Organization}, nil
}

// Fill completes what o leaves open with the old credential's identity.
func (m Migration) Fill(o *enrolling.Options) {
	o.Context = m.Context.Name
	enrolling.Fill(&o.User, m.Subject.User)
	if o.Groups == nil {
		o.Groups = m.Subject.Groups
	}
}

// Remarks say what is left to do about the old credential once the new one
// works: nothing that is done here takes back what may have been copied.
func (m Migration) Remarks() []string {
	what := "the old credential"
	if m.Context.UserKind == string(kubeconfig.UserKeyData) || m.Context.UserKind == string(kubeconfig.UserKeyFile) {
		what = "the old key"
	}
	out := []string{what + " was in a file and must be considered copied: " +
		"it works until its certificate ends or its rights are taken away"}
	if len(m.Others) > 0 {
		out = append(out, "other contexts still sign in with it: "+strings.Join(m.Others, ", ")+"; migrate them too")
	}
	if m.KeyFile != "" {
		out = append(out, "the old key is still in "+m.KeyFile+": delete that file, and its copies in backups")
	}
	return out
}

// Drop plans to take a context out of the kubeconfig files, with its user
// and its cluster as far as no other context uses them.
func (k Contexts) Drop(ctx context.Context, name string) (*Change, error) {
	plan, err := k.env.Rules().PlanDrop(ctx, name)
	if err != nil {
		return nil, err
	}
	return &Change{from: k, plan: plan}, nil
}
